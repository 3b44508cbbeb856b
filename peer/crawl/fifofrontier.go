package crawl

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// item is one URL to fetch.
type item struct {
	url   string
	hash  uint64
	depth int
	hops  int  // redirects that led here
	tries int  // requests so far
	any   bool // fetch it whatever its content type
	long  bool // what is longer than maxSitemap is wanted, too
}

// frontier is the to-do list. Owned by the session.
type frontier interface {
	add(it item) error
	next() (it item, ok bool, err error)
	// done tells which URLs a fetched page links to, by the hashes of those that are, or were, on the list.
	done(it item, links []uint64, duplicate bool)
	len() int
	close()
}

var errSpillFull = errors.New("crawl: to-do list is full")

// fifo is the paper's queue: first seen, first fetched. Up to inMemory items are in memory. The items between head and tail are in one or two
// files: one is read while the other is written.
type fifo struct {
	files      files
	dir        string
	most       int64  // bytes of both files
	head, tail []item // items are taken at headAt of head; a full tail is appended to the files
	headAt     int
	reading    *spillFile // nil: none
	writing    *spillFile
	onDisk     int
}

const inMemory = 1000

type spillFile struct {
	f     spillDisk
	w     *bufio.Writer
	r     *bufio.Reader
	bytes int64
	items int
}

func newFIFO(fs files, dir string, most int64) *fifo { return &fifo{files: fs, dir: dir, most: most} }

func (q *fifo) len() int { return len(q.head) - q.headAt + len(q.tail) + q.onDisk }

func (q *fifo) done(item, []uint64, bool) {}

func (q *fifo) add(it item) error {
	if len(q.tail) < inMemory/2 {
		q.tail = append(q.tail, it)
		return nil
	}
	if q.onDisk == 0 && len(q.head)-q.headAt <= inMemory/2 { // the tail fits behind the head
		q.head = append(q.head[:copy(q.head, q.head[q.headAt:])], q.tail...)
		q.headAt = 0
		q.tail = append(q.tail[:0], it)
		return nil
	}
	if err := q.spill(); err != nil {
		return err
	}
	q.tail = append(q.tail[:0], it)
	return nil
}

// spill appends the tail to what is on disk.
func (q *fifo) spill() error {
	if q.writing == nil {
		f, err := q.files.spill(q.dir)
		if err != nil {
			return spillError(err)
		}
		q.writing = &spillFile{f: f, w: bufio.NewWriterSize(f, 16<<10)}
	}
	s, held := q.writing, q.writing.bytes
	if q.reading != nil { // it takes its room until its last item is read
		held += q.reading.bytes
	}
	if held >= q.most {
		return errSpillFull
	}
	var num [3 * binary.MaxVarintLen64]byte
	for _, it := range q.tail {
		b := binary.AppendUvarint(num[:0], uint64(it.depth))
		b = binary.AppendUvarint(b, uint64(it.hops))
		b = binary.AppendUvarint(b, uint64(len(it.url)))
		_, _ = s.w.Write(b) // a failed write shows at the flush before reading
		_, _ = s.w.WriteString(it.url)
		s.bytes += int64(len(b) + len(it.url))
	}
	s.items += len(q.tail)
	q.onDisk += len(q.tail)
	q.tail = q.tail[:0]
	return nil
}

func (q *fifo) next() (item, bool, error) {
	if q.headAt == len(q.head) {
		q.head, q.headAt = q.head[:0], 0
		if err := q.refill(); err != nil {
			return item{}, false, err
		}
		if len(q.head) == 0 {
			return item{}, false, nil
		}
	}
	it := q.head[q.headAt]
	q.head[q.headAt] = item{}
	q.headAt++
	return it, true, nil
}

func (q *fifo) refill() error {
	if q.onDisk == 0 {
		q.head, q.tail = append(q.head, q.tail...), q.tail[:0]
		return nil
	}
	if q.reading == nil {
		s := q.writing
		if err := s.w.Flush(); err != nil {
			return spillError(err)
		}
		if _, err := s.f.Seek(0, io.SeekStart); err != nil {
			return spillError(err)
		}
		s.r = bufio.NewReaderSize(s.f, 16<<10)
		q.reading, q.writing = s, nil
	}
	s := q.reading
	for len(q.head) < inMemory/2 && s.items > 0 {
		it, err := s.read()
		if err != nil {
			return spillError(err)
		}
		q.head = append(q.head, it)
		s.items--
		q.onDisk--
	}
	if s.items == 0 {
		s.close()
		q.reading = nil
	}
	return nil
}

func (s *spillFile) read() (it item, err error) {
	var n [3]uint64
	for i := range n {
		if n[i], err = binary.ReadUvarint(s.r); err != nil {
			return it, err
		}
	}
	b := make([]byte, n[2])
	if _, err := io.ReadFull(s.r, b); err != nil {
		return it, err
	}
	it = item{url: string(b), depth: int(n[0]), hops: int(n[1])}
	it.hash = urlHash(it.url)
	return it, nil
}

func (s *spillFile) close() { s.f.Close() }

func spillError(err error) error {
	return fmt.Errorf("%w does not keep the list of URLs: %w", errDisk, err)
}

func (q *fifo) close() {
	for _, s := range []*spillFile{q.reading, q.writing} {
		if s != nil {
			s.close()
		}
	}
	q.reading, q.writing = nil, nil
}
