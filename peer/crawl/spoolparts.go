package crawl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/channel"
)

// A part is a file: magic, then records of length, CRC-32C and an encoded channel.ChunkBody. A record that a crash has cut off or damaged does
// not count, nor does anything after it: those pages are fetched again. Records that the disk does not take stay in memory.
const (
	partMagic  = "shoal spool 1\n"
	recordHead = 8
	flushEvery = 100 * time.Millisecond // pages that come faster are written together
	flushMost  = 32 << 10               // most bytes that wait
)

// errDisk means that the disk does not store what a crawl writes, or does not give it back.
var errDisk = errors.New("crawl: the disk")

// files is the file system, as far as a crawl needs it.
type files interface {
	create(path string) (io.WriteCloser, error)
	spill(dir string) (spillDisk, error) // a file whose name others do not see
}

type spillDisk interface {
	io.ReadWriteSeeker
	io.Closer
}

// disk is the system's file system.
type disk struct{}

func (disk) create(path string) (io.WriteCloser, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

func (disk) spill(dir string) (spillDisk, error) {
	f, err := os.CreateTemp(dir, "todo-*")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // the file lives until it is closed; where the system refuses this, Close removes it
	return spilled{f}, nil
}

type spilled struct{ *os.File }

func (s spilled) Close() error {
	err := s.File.Close()
	os.Remove(s.Name())
	return err
}

// raws are buffers for puts.
var raws = sync.Pool{New: func() any { return new([]byte) }}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parts are the files of one task: pages-<channel>-<generation>-<number>. The generation in the name tells them from those of older crawls.
type parts struct {
	files              files
	dir, channel, name string
	next               int
}

func partsOf(dir string, h channel.Header) parts {
	of := fmt.Sprintf("pages-%016x-", uint64(h.Channel))
	return parts{files: disk{}, dir: dir, channel: of, name: fmt.Sprintf("%s%016x-", of, uint64(h.Gen))}
}

// SpoolOf returns the files of a task in a spool folder.
func SpoolOf(dir string, h channel.Header) ([]string, error) {
	return FilesOf(dir, partsOf(dir, h).name+"*")
}

// FilesOf returns the files of a folder whose names match a pattern, by their names. Unlike filepath.Glob it takes the folder's own name as it is, whatever
// characters that has. A folder that is not there has none.
func FilesOf(dir, pattern string) (out []string, err error) {
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range all {
		is, bad := filepath.Match(pattern, e.Name())
		if bad != nil {
			return nil, bad
		}
		if is {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, err
}

type part struct {
	path    string
	f       io.WriteCloser // nil: closed, or could not be created
	written int64          // valid bytes of the file; -1: all
	buf     []byte         // records that are not in the file yet
	err     error          // of the file; it takes no more after one
	since   time.Time      // when it was created
	flushed time.Time

	bytes               int64
	pages, found, links int
}

func (p *parts) create() *part {
	out := &part{path: filepath.Join(p.dir, fmt.Sprintf("%s%08d", p.name, p.next)), since: time.Now()}
	p.next++
	if out.f, out.err = p.files.create(out.path); out.err != nil {
		out.f = nil
	}
	return out
}

// list gives the parts of an earlier run of the task, oldest first.
func (p *parts) list() ([]*part, error) {
	names, err := FilesOf(p.dir, p.name+"*")
	if err != nil {
		return nil, fmt.Errorf("crawl: spool: %w", err)
	}
	var out []*part
	for _, name := range names {
		var n int
		if _, err := fmt.Sscanf(filepath.Base(name)[len(p.name):], "%d", &n); err != nil {
			continue
		}
		p.next = max(p.next, n+1)
		out = append(out, &part{path: name, written: -1})
	}
	return out, nil
}

func (p *parts) remove() {
	names, _ := FilesOf(p.dir, p.name+"*")
	for _, name := range names {
		os.Remove(name)
	}
}

// removeOthers removes the files of other generations of the channel.
func (p *parts) removeOthers() {
	names, _ := FilesOf(p.dir, p.channel+"*")
	for _, name := range names {
		if !strings.HasPrefix(filepath.Base(name), p.name) {
			os.Remove(name)
		}
	}
}

// add adds a record and returns its size in the file.
func (p *part) add(record []byte) int64 {
	p.buf = binary.BigEndian.AppendUint32(p.buf, uint32(len(record)))
	p.buf = binary.BigEndian.AppendUint32(p.buf, crc32.Checksum(record, castagnoli))
	p.buf = append(p.buf, record...)
	if now := time.Now(); len(p.buf) >= flushMost || now.Sub(p.flushed) >= flushEvery {
		p.flush(now)
	}
	n := int64(recordHead + len(record))
	p.bytes += n
	return n
}

// flush writes the records in memory to the file. If that fails, what has reached the file does not count.
func (p *part) flush(now time.Time) {
	p.flushed = now
	if p.err != nil || len(p.buf) == 0 {
		return
	}
	if p.written == 0 {
		if _, p.err = io.WriteString(p.f, partMagic); p.err != nil {
			return
		}
		p.written = int64(len(partMagic))
	}
	if _, p.err = p.f.Write(p.buf); p.err != nil {
		return
	}
	p.written += int64(len(p.buf))
	p.buf = p.buf[:0]
	if cap(p.buf) > 512<<10 { // do not keep the memory of a big page
		p.buf = nil
	}
}

func (p *part) close() {
	p.flush(time.Now())
	if len(p.buf) == 0 {
		p.buf = nil
	}
	if p.f == nil {
		return
	}
	if err := p.f.Close(); err != nil && p.err == nil { // some systems report a failed write only now
		p.err = err
	}
	p.f = nil
}

func (p *part) remove() { os.Remove(p.path) }

// read reads the records into buf, one after another.
func (p *part) read(buf []byte) ([]byte, error) {
	valid, out := int64(0), buf[:0]
	take := func(record []byte) { out = append(out, record...) } // shorter than what has been read, since record heads are dropped
	if p.written != 0 {
		var err error
		if buf, err = p.load(buf); err != nil {
			return buf, err
		}
		if p.written > 0 {
			buf = buf[:min(p.written, int64(len(buf)))]
		}
		out = buf[:0]
		valid = records(buf, take)
	}
	if valid += recordsOf(p.buf, take); valid != p.bytes {
		return buf, fmt.Errorf("%w gave back pages that wait to be sent otherwise than it got them: %s is damaged", errDisk, filepath.Base(p.path))
	}
	return out, nil
}

// load reads the file into buf.
func (p *part) load(buf []byte) ([]byte, error) {
	f, err := os.Open(p.path)
	if err != nil {
		return buf, fmt.Errorf("%w does not give back pages that wait to be sent: %w", errDisk, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return buf, fmt.Errorf("%w does not give back pages that wait to be sent: %w", errDisk, err)
	}
	buf = slices.Grow(buf[:0], int(st.Size()))[:st.Size()]
	if _, err := io.ReadFull(f, buf); err != nil {
		return buf, fmt.Errorf("%w does not give back pages that wait to be sent: %w", errDisk, err)
	}
	return buf, nil
}

// records calls f for each whole record of a file, in order, and returns how many bytes they take. f must not keep the record.
func records(b []byte, f func(record []byte)) (valid int64) {
	if len(b) < len(partMagic) || string(b[:len(partMagic)]) != partMagic {
		return 0
	}
	return recordsOf(b[len(partMagic):], f)
}

// recordsOf is records without the magic.
func recordsOf(b []byte, f func(record []byte)) (valid int64) {
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

// RemoveSpool removes the files of a task from a spool folder.
func RemoveSpool(dir string, h channel.Header) {
	p := partsOf(dir, h)
	p.remove()
}

// RemoveSpills removes the files of an earlier process from a spool folder, except the pages of tasks that go on.
func RemoveSpills(dir string, goOn ...channel.Header) error {
	old, err := FilesOf(dir, "todo-*")
	pages, perr := FilesOf(dir, "pages-*")
	err = errors.Join(err, perr)
	for _, name := range append(old, pages...) {
		kept := slices.ContainsFunc(goOn, func(h channel.Header) bool { return strings.HasPrefix(filepath.Base(name), partsOf(dir, h).name) })
		if !kept {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}
