package crawl

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/channel"
)

// A part is a file: magic, then records of length, CRC-32C and an encoded channel.ChunkBody. What a crash has cut off at its end, and all
// after a record that is damaged, does not count: it is fetched again.
const (
	partMagic  = "shoal spool 1\n"
	recordHead = 8
	flushEvery = 100 * time.Millisecond // pages that come faster are written together
)

// raws are the buffers of puts.
var raws = sync.Pool{New: func() any { return new([]byte) }}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parts are the files of one task: pages-<channel>-<generation>-<number>. The generation in the name keeps an older crawl's out.
type parts struct {
	dir, channel, name string
	next               int
}

func partsOf(dir string, h channel.Header) parts {
	of := fmt.Sprintf("pages-%016x-", uint64(h.Channel))
	return parts{dir: dir, channel: of, name: fmt.Sprintf("%s%016x-", of, uint64(h.Gen))}
}

// SpoolOf names the files of a task in a spool folder, as a pattern for filepath.Glob.
func SpoolOf(dir string, h channel.Header) string {
	p := partsOf(dir, h)
	return filepath.Join(dir, p.name+"*")
}

type part struct {
	path    string
	f       *os.File
	w       *bufio.Writer
	since   time.Time // of its first record
	flushed time.Time

	bytes               int64
	pages, found, links int
}

func (p *parts) create() (*part, error) {
	path := filepath.Join(p.dir, fmt.Sprintf("%s%08d", p.name, p.next))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("crawl: spool: %w", err)
	}
	p.next++
	out := &part{path: path, f: f, w: bufio.NewWriterSize(f, 32<<10), since: time.Now()}
	_, err = out.w.WriteString(partMagic)
	return out, err
}

// list gives the parts that an earlier run of the task left, oldest first.
func (p *parts) list() ([]*part, error) {
	names, err := filepath.Glob(filepath.Join(p.dir, p.name+"*"))
	if err != nil {
		return nil, fmt.Errorf("crawl: spool: %w", err)
	}
	slices.Sort(names)
	var out []*part
	for _, name := range names {
		var n int
		if _, err := fmt.Sscanf(filepath.Base(name)[len(p.name):], "%d", &n); err != nil {
			continue
		}
		p.next = max(p.next, n+1)
		out = append(out, &part{path: name})
	}
	return out, nil
}

func (p *parts) remove() {
	names, _ := filepath.Glob(filepath.Join(p.dir, p.name+"*"))
	for _, name := range names {
		os.Remove(name)
	}
}

// removeOthers removes what other generations of the channel left.
func (p *parts) removeOthers() {
	names, _ := filepath.Glob(filepath.Join(p.dir, p.channel+"*"))
	for _, name := range names {
		if !strings.HasPrefix(filepath.Base(name), p.name) {
			os.Remove(name)
		}
	}
}

// add writes a record, and tells how many bytes that takes.
func (p *part) add(record []byte) (int64, error) {
	var head [recordHead]byte
	binary.BigEndian.PutUint32(head[:4], uint32(len(record)))
	binary.BigEndian.PutUint32(head[4:], crc32.Checksum(record, castagnoli))
	if _, err := p.w.Write(head[:]); err != nil {
		return 0, fmt.Errorf("crawl: spool: %w", err)
	}
	if _, err := p.w.Write(record); err != nil {
		return 0, fmt.Errorf("crawl: spool: %w", err)
	}
	if now := time.Now(); now.Sub(p.flushed) >= flushEvery {
		if err := p.flush(now); err != nil {
			return 0, err
		}
	}
	n := int64(recordHead + len(record))
	p.bytes += n
	return n, nil
}

func (p *part) flush(now time.Time) error {
	p.flushed = now
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("crawl: spool: %w", err)
	}
	return nil
}

func (p *part) close() error {
	err := p.w.Flush()
	p.w = nil
	if err = errors.Join(err, p.f.Close()); err != nil {
		return fmt.Errorf("crawl: spool: %w", err)
	}
	return nil
}

func (p *part) remove() { os.Remove(p.path) }

// read reads the records into buf, one after another.
func (p *part) read(buf []byte) ([]byte, error) {
	buf, err := p.load(buf)
	if err != nil {
		return buf, err
	}
	out := buf[:0] // never beyond what is read: heads go
	valid := records(buf, func(record []byte) { out = append(out, record...) })
	if valid != p.bytes {
		return buf, fmt.Errorf("crawl: spool: %s is damaged", filepath.Base(p.path))
	}
	return out, nil
}

// load reads the file into buf.
func (p *part) load(buf []byte) ([]byte, error) {
	f, err := os.Open(p.path)
	if err != nil {
		return buf, fmt.Errorf("crawl: spool: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return buf, fmt.Errorf("crawl: spool: %w", err)
	}
	buf = slices.Grow(buf[:0], int(st.Size()))[:st.Size()]
	if _, err := io.ReadFull(f, buf); err != nil {
		return buf, fmt.Errorf("crawl: spool: %w", err)
	}
	return buf, nil
}

// records gives the whole records of a file in their order, and how many bytes they take. A record is valid until the next.
func records(b []byte, f func(record []byte)) (valid int64) {
	if len(b) < len(partMagic) || string(b[:len(partMagic)]) != partMagic {
		return 0
	}
	b = b[len(partMagic):]
	for len(b) >= recordHead {
		n, sum := int(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:])
		b = b[recordHead:]
		if n > len(b) || crc32.Checksum(b[:n], castagnoli) != sum {
			break
		}
		valid += recordHead + int64(n)
		f(b[:n])
		b = b[n:]
	}
	return valid
}

// RemoveSpool clears what a task left in a spool folder.
func RemoveSpool(dir string, h channel.Header) {
	p := partsOf(dir, h)
	p.remove()
}

// RemoveSpills clears what an earlier process may have left in a spool folder, but for the pages of tasks that go on.
func RemoveSpills(dir string, goOn ...channel.Header) error {
	old, err := filepath.Glob(filepath.Join(dir, "todo-*"))
	pages, perr := filepath.Glob(filepath.Join(dir, "pages-*"))
	err = errors.Join(err, perr)
	for _, name := range append(old, pages...) {
		kept := slices.ContainsFunc(goOn, func(h channel.Header) bool { return strings.HasPrefix(filepath.Base(name), partsOf(dir, h).name) })
		if !kept {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}
