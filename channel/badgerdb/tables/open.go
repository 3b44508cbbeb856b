package tables

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// CheckOpen checks an open database: its tables in use and the finished files of its value log. It reads at most
// perSecond bytes a second; zero: no limit. The database must stay open until CheckOpen returns.
func CheckOpen(ctx context.Context, db *badger.DB, perSecond int64) error {
	p := pace{ctx: ctx, perSecond: perSecond, began: time.Now()}
	dir := db.Opts().Dir
	var raw []byte
	for _, t := range db.Tables() {
		if err := p.wait(); err != nil {
			return err
		}
		name := tableFile(dir, t.ID)
		var err error
		if raw, err = p.table(raw[:0], name); err != nil && inTables(db, t.ID) { // else it was compacted meanwhile
			return fmt.Errorf("table %s: %w", filepath.Base(name), err)
		}
	}
	return p.values(dir)
}

// CheckFolder checks a whole folder that no process has open: all that Check checks, and the whole value log.
func CheckFolder(ctx context.Context, o badger.Options) error {
	if err := unused(o.Dir, func() error { return removeEmpty(o.Dir) }); err != nil {
		return err
	}
	if err := lookUnused(o); err != nil {
		return err
	}
	return (&pace{ctx: ctx}).values(o.Dir)
}

func inTables(db *badger.DB, id uint64) bool {
	return slices.ContainsFunc(db.Tables(), func(t badger.TableInfo) bool { return t.ID == id })
}

// pace limits the rate of reading.
type pace struct {
	ctx       context.Context // of one look
	perSecond int64           // zero: unbounded
	began     time.Time
	read      int64
}

// wait waits until more may be read.
func (p *pace) wait() error {
	if p.perSecond <= 0 {
		return p.ctx.Err()
	}
	ahead := time.Duration(float64(p.read)/float64(p.perSecond)*float64(time.Second)) - time.Since(p.began)
	if ahead <= 0 {
		return p.ctx.Err()
	}
	t := time.NewTimer(ahead)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

func (p *pace) table(buf []byte, name string) ([]byte, error) {
	buf, err := readInto(buf, name)
	p.read += int64(len(buf))
	if err == nil {
		err = checkTable(buf)
	}
	return buf, err
}

// values checks the value log without its last file, which is being written.
func (p *pace) values(dir string) error {
	names, err := find(dir, "*.vlog") // sorted
	if err != nil || len(names) == 0 {
		return err
	}
	for _, name := range names[:len(names)-1] {
		err := p.file(name)
		if err == nil {
			continue
		}
		if _, gone := os.Stat(name); errors.Is(gone, fs.ErrNotExist) { // cleaned meanwhile
			continue
		}
		return fmt.Errorf("value log %s: %w", filepath.Base(name), err)
	}
	return nil
}

// file checks a finished file of the value log, which must consist of entries from beginning to end.
func (p *pace) file(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // nothing was written
	r := bufio.NewReaderSize(paced{f, p}, 1<<20)
	if _, err := r.Discard(logHeader); err != nil {
		return p.ctx.Err() // a file that nothing was written to
	}
	var e entry
	at := int64(logHeader)
	for e.read(r) {
		at += e.size
	}
	if err := p.ctx.Err(); err != nil {
		return err
	}
	rest, err := readFilled(io.NewSectionReader(f, at, 1<<62))
	if err != nil {
		return err
	}
	if len(bytes.TrimRight(rest, "\x00")) > 0 {
		return fmt.Errorf("%w at %d", ErrChanged, at)
	}
	return nil
}

// paced is a reader that keeps to a rate.
type paced struct {
	r io.Reader
	p *pace
}

func (r paced) Read(b []byte) (int, error) {
	if err := r.p.wait(); err != nil {
		return 0, err
	}
	n, err := r.r.Read(b)
	r.p.read += int64(n)
	return n, err
}
