package pages

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"errors"
	"io"
	"os"
	"slices"
)

// maxSortRun is how many bytes of lines are sorted in memory; more go to temporary files.
const maxSortRun = 32 << 20

// lineSorter sorts any number of lines. It is owned by one goroutine.
type lineSorter struct {
	run   int // bytes of lines in memory
	lines [][]byte
	size  int
	files []*os.File // sorted runs
}

// add takes a line, which ends in a line feed and is kept.
func (s *lineSorter) add(line []byte) error {
	s.lines = append(s.lines, line)
	if s.size += len(line); s.size < s.run {
		return nil
	}
	return s.spill()
}

// spill writes what is in memory to a temporary file.
func (s *lineSorter) spill() error {
	f, err := os.CreateTemp("", "shoal-index-")
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	slices.SortFunc(s.lines, bytes.Compare)
	w := bufio.NewWriterSize(f, 256<<10)
	for _, l := range s.lines {
		if _, err := w.Write(l); err != nil {
			return err
		}
	}
	s.lines, s.size = s.lines[:0], 0
	return w.Flush()
}

// write writes the lines in order, at most limit of them; 0: all.
func (s *lineSorter) write(ctx context.Context, w io.Writer, limit int) error {
	slices.SortFunc(s.lines, bytes.Compare)
	var h runs
	if r := (&sortedRun{lines: s.lines}); r.next() == nil {
		h = append(h, r)
	}
	for _, f := range s.files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		r := &sortedRun{in: bufio.NewReaderSize(f, 256<<10)}
		if err := r.next(); err != nil {
			return err
		}
		h = append(h, r)
	}
	heap.Init(&h)
	for len(h) > 0 && ctx.Err() == nil {
		if _, err := w.Write(h[0].line); err != nil {
			return err
		}
		if limit--; limit == 0 {
			return nil
		}
		switch err := h[0].next(); {
		case err == nil:
			heap.Fix(&h, 0)
		case errors.Is(err, io.EOF):
			heap.Pop(&h)
		default:
			return err
		}
	}
	return ctx.Err()
}

// close removes the temporary files.
func (s *lineSorter) close() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return err
}

// sortedRun is lines in order, in memory or in a file.
type sortedRun struct {
	lines [][]byte
	in    *bufio.Reader // nil: in memory
	line  []byte        // the present one
}

// next goes to the next line; io.EOF: there is none.
func (r *sortedRun) next() (err error) {
	if r.in != nil {
		r.line, err = r.in.ReadBytes('\n')
		return err
	}
	if len(r.lines) == 0 {
		return io.EOF
	}
	r.line, r.lines = r.lines[0], r.lines[1:]
	return nil
}

// runs is a heap of runs by their present lines.
type runs []*sortedRun

func (h runs) Len() int           { return len(h) }
func (h runs) Less(i, j int) bool { return bytes.Compare(h[i].line, h[j].line) < 0 }
func (h runs) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runs) Push(x any)        { *h = append(*h, x.(*sortedRun)) }
func (h *runs) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
