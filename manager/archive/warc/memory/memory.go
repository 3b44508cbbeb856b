// Package memory keeps the segments of an archive in memory, for tests of what stands on a segment store: a commit, a crash and a reader need
// no disk. Its pages are gone when the process ends.
//
// A Location counts records here, not bytes, so that a test fails if code takes an offset for a place in a file.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
)

// Config of a store.
type Config struct {
	Roll  int                                                        // bytes after which a segment is ended; 0: 1 MiB
	Fail  func(step string) error                                    // asked before "append", "sync" and "read"; nil: nothing fails
	First func(name string, id uint32, at time.Time) ([]byte, error) // the first record of a segment; nil: none
}

// Store is a store in memory. It stays what it is when an archive is closed: opening another one on it is a restart.
type Store struct {
	cfg Config

	mu       sync.Mutex
	segments map[uint32]*run
	last     uint32
	out      *run // nil: the next record begins a new segment
	finished []segment.Info
	torn     bool
}

// run is one segment.
type run struct {
	info    segment.Info // as committed
	records [][]byte
	synced  int // records that a crash leaves
}

var _ segment.Store = (*Store)(nil)

// New makes an empty store.
func New(cfg Config) *Store {
	if cfg.Roll == 0 {
		cfg.Roll = 1 << 20
	}
	if cfg.Fail == nil {
		cfg.Fail = func(string) error { return nil }
	}
	return &Store{cfg: cfg, segments: map[uint32]*run{}}
}

// Crash forgets what was not synced, as a power cut does. Recover must be called then.
func (s *Store) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.segments {
		r.records = r.records[:r.synced]
	}
	s.out, s.finished, s.torn = nil, nil, false
}

func (r *run) size() (n int) {
	for _, b := range r.records {
		n += len(b)
	}
	return n
}

// Recover implements segment.Store.
func (s *Store) Recover(committed []segment.Info, last uint32) (problems []segment.Problem, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.out, s.finished, s.torn = last, nil, nil, false
	known := map[uint32]bool{}
	for _, info := range committed {
		known[info.ID] = true
		s.last = max(s.last, info.ID)
		r := s.segments[info.ID]
		if r == nil {
			r = &run{}
			s.segments[info.ID] = r
			problems = append(problems, segment.Problem{Segment: info, Err: segment.ErrNone})
		}
		r.info = info
		if uint64(len(r.records)) < info.Length {
			if len(r.records) > 0 {
				problems = append(problems, segment.Problem{Segment: info, Err: segment.ErrShort})
			}
			continue
		}
		r.records = r.records[:info.Length]
		r.synced = min(r.synced, len(r.records))
		if info.ID == last && !info.Sealed {
			s.out = r
		}
	}
	maps.DeleteFunc(s.segments, func(id uint32, _ *run) bool { return !known[id] })
	return problems, nil
}

// List implements segment.Store.
func (s *Store) List() (out []segment.Info, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.segments)) {
		info := s.segments[id].info
		info.Length, info.Sealed = uint64(len(s.segments[id].records)), true
		out = append(out, info)
	}
	return out, nil
}

// Has implements segment.Store.
func (s *Store) Has(id uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.segments[id] != nil
}

// Count implements segment.Store.
func (s *Store) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.segments)
}

// Append implements segment.Writer.
func (s *Store) Append(raw []byte, ends []int) ([]segment.Location, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cfg.Fail("append"); err != nil {
		return nil, err
	}
	if s.out != nil && s.out.size() >= s.cfg.Roll && uint64(len(s.out.records)) == s.out.info.Length {
		s.seal()
	}
	if s.out == nil {
		s.last++
		r := &run{info: segment.Info{ID: s.last, Name: fmt.Sprintf("memory-%05d", s.last), Created: time.Unix(int64(s.last), 0).UTC()}}
		if s.cfg.First != nil {
			first, err := s.cfg.First(r.info.Name, r.info.ID, r.info.Created)
			if err != nil {
				return nil, err
			}
			r.records = append(r.records, first)
		}
		s.out, s.segments[s.last] = r, r
	}
	out := make([]segment.Location, len(ends))
	begin := 0
	for n, end := range ends {
		out[n] = segment.Location{Segment: s.out.info.ID, Offset: uint64(len(s.out.records)), Length: uint32(end - begin)}
		s.out.records = append(s.out.records, bytes.Clone(raw[begin:end]))
		begin = end
	}
	return out, nil
}

// Sync implements segment.Writer.
func (s *Store) Sync() ([]segment.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil || uint64(len(s.out.records)) == s.out.info.Length {
		return s.finished, nil
	}
	if err := s.cfg.Fail("sync"); err != nil {
		s.torn = true
		return nil, err
	}
	s.out.synced = len(s.out.records)
	return append(slices.Clone(s.finished), s.out.whole()), nil
}

func (r *run) whole() segment.Info {
	info := r.info
	info.Length, info.Records = uint64(len(r.records)), uint64(len(r.records))
	return info
}

// Commit implements segment.Writer.
func (s *Store) Commit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished = nil; s.out != nil {
		s.out.info = s.out.whole()
	}
}

// Rollback implements segment.Writer.
func (s *Store) Rollback() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil {
		return nil
	}
	s.out.records = s.out.records[:s.out.info.Length]
	s.out.synced = min(s.out.synced, len(s.out.records))
	switch {
	case len(s.out.records) == 0:
		delete(s.segments, s.out.info.ID)
		s.out = nil
	case s.torn:
		s.seal()
	}
	s.torn = false
	return nil
}

// Seal implements segment.Writer.
func (s *Store) Seal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seal()
	return nil
}

func (s *Store) seal() {
	if s.out != nil {
		s.out.info.Sealed = true
		s.finished = append(s.finished, s.out.info)
		s.out = nil
	}
}

// Read implements segment.Store.
func (s *Store) Read(at segment.Location, most int64) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cfg.Fail("read"); err != nil {
		return nil, err
	}
	r := s.segments[at.Segment]
	if r == nil || at.Offset >= uint64(len(r.records)) {
		return nil, fmt.Errorf("%w: %d", segment.ErrNone, at.Segment)
	}
	all := bytes.Join(r.records[at.Offset:], nil)
	return io.NopCloser(io.LimitReader(bytes.NewReader(all), int64(at.Length)+most)), nil
}

// Place implements segment.Store.
func (s *Store) Place(at segment.Location) segment.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.segments[at.Segment]
	if r == nil {
		return segment.Place{}
	}
	p := segment.Place{Name: r.info.Name, Length: int64(at.Length)}
	for _, b := range r.records[:min(at.Offset, uint64(len(r.records)))] {
		p.Offset += int64(len(b))
	}
	return p
}

// Scan implements segment.Store.
func (s *Store) Scan(ctx context.Context, info segment.Info, do func(segment.Found) error) error {
	s.mu.Lock()
	var records [][]byte
	if r := s.segments[info.ID]; r != nil {
		records = r.records[:min(uint64(len(r.records)), info.Length)]
	}
	s.mu.Unlock()
	at := segment.Location{Segment: info.ID}
	for n, raw := range records {
		at.Offset, at.Length = uint64(n), uint32(len(raw))
		rec, err := warc.ReadRecord(bytes.NewReader(raw))
		if err := firstOf(do(segment.Found{At: at, Record: rec, Bad: err}), ctx.Err()); err != nil {
			return err
		}
	}
	if at.Offset = uint64(len(records)); at.Offset < info.Length {
		at.Length = 0
		return do(segment.Found{At: at, Bad: segment.ErrShort, End: true})
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Copy implements segment.Store.
func (s *Store) Copy(ctx context.Context, info segment.Info, w io.Writer) error {
	s.mu.Lock()
	r := s.segments[info.ID]
	s.mu.Unlock()
	if r == nil || uint64(len(r.records)) < info.Length {
		return fmt.Errorf("%w: %d", segment.ErrShort, info.ID)
	}
	for _, raw := range r.records[:info.Length] {
		if _, err := w.Write(raw); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Cut implements segment.Store.
func (s *Store) Cut(info segment.Info, at segment.Location) (segment.Info, bool) {
	info.Length, info.Sealed = at.Offset, true
	return info, at.Offset > 0
}

// Remove implements segment.Store.
func (s *Store) Remove(info segment.Info) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.segments, info.ID)
	return nil
}

// Free implements segment.Store.
func (s *Store) Free() (int64, error) { return 1 << 40, nil }

// Close implements segment.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = nil
	return nil
}
