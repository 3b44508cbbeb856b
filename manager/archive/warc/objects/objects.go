// Package objects keeps the pages of an archive in an object store. A segment is a run of objects, its parts, each written whole by one commit:
// objects cannot be appended to. Each part is a WARC file by itself, which other programs can read. A Location counts bytes from the beginning
// of the segment.
//
// It does not look into the records, and it does not know which of them are still needed.
//
// Invariants: a part's name is never used again, so that a write that comes late overwrites nothing. Which parts a segment has stands in the
// ledger (segment.Info.Parts), since a listing may lag behind. Parts that the ledger does not know are removed, but only after the first commit:
// it has shut out every other program that may have written them, was paused, and would commit them now.
package objects

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/manager/archive/bucket"
	"shoal/manager/archive/segment"
)

// Bucket is where the objects are.
type Bucket interface {
	Put(ctx context.Context, name string, body []byte) error
	PutFrom(ctx context.Context, name string, from io.Reader, size int64) error
	Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error)
	Size(ctx context.Context, name string) (int64, error)
	List(ctx context.Context, prefix string, do func(bucket.Object) error) error
	Remove(ctx context.Context, name string) error
}

// Defaults.
const (
	DefaultRoll  = 1 << 30 // bytes
	DefaultParts = 128
)

// Config of a store.
type Config struct {
	Bucket Bucket           // no default
	Roll   int64            // bytes after which a segment is ended; 0: DefaultRoll
	Parts  int              // objects after which a segment is ended; 0: DefaultParts
	Clock  func() time.Time // names the segments; nil: time.Now
	// First makes the first record of a segment, its warcinfo. Nil: there is none.
	First func(name string, id uint32, at time.Time) ([]byte, error)
	// Next gives the ID of a new segment, where other programs write to the same bucket: each writes segments of its own, goes on with none of
	// another, and removes nothing that it does not know. Nil: there is no other program.
	Next func() (uint32, error)
	// Free is how many bytes may still be written. Nil: any number.
	Free func() (int64, error)
}

// Store is an open store. Its Writer's methods are called by one goroutine at a time, all others by any.
type Store struct {
	*writer // the first one
	cfg     Config
	ahead   ahead

	mu       sync.Mutex
	segments map[uint32]*run
	last     uint32   // ID of the newest segment that ever was
	open     []*run   // that were being written when the store was last closed, and that no writer goes on with yet; the newest first
	orphans  []string // objects of no segment, as Recover found them
}

// run is one segment. Readers get it as it is; a commit puts another one in its place.
type run struct {
	info  segment.Info
	parts []part
}

// part is one object of a segment.
type part struct {
	name   string
	base   int64 // in the segment
	length int64
	is     int64 // bytes that there are; less than length: the rest is lost
}

var _ segment.Store = (*Store)(nil)

// Open opens a store. Recover must be called before anything is written or read.
func Open(cfg Config) *Store {
	if cfg.Roll <= 0 {
		cfg.Roll = DefaultRoll
	}
	if cfg.Parts <= 0 {
		cfg.Parts = DefaultParts
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	s := &Store{cfg: cfg, segments: map[uint32]*run{}}
	s.writer = &writer{of: s}
	return s
}

// Recover implements segment.Store.
func (s *Store) Recover(committed []segment.Info, last uint32) (problems []segment.Problem, err error) {
	ctx := context.Background()
	sizes, err := s.sizes(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments, s.last, s.open = map[uint32]*run{}, last, nil
	for _, info := range committed {
		s.last = max(s.last, info.ID)
		r, err := newRun(info)
		if err != nil {
			return nil, err
		}
		if err := s.look(ctx, r, sizes); err != nil {
			return nil, err
		}
		s.segments[info.ID] = r
		switch size := r.size(); {
		case size == 0 && info.Length > 0:
			problems = append(problems, segment.Problem{Segment: info, Err: segment.ErrNone})
		case !r.whole():
			problems = append(problems, segment.Problem{Segment: info, Err: fmt.Errorf("%w: objects are missing or have lost bytes", segment.ErrShort)})
		case !info.Sealed && info.Parts != "" && s.cfg.Next == nil:
			s.open = append(s.open, r)
		}
	}
	slices.SortFunc(s.open, func(a, b *run) int { return cmp.Compare(b.info.ID, a.info.ID) })
	s.writer = &writer{of: s}
	s.resume()
	if s.cfg.Next == nil {
		s.orphans = slices.Sorted(maps.Keys(sizes))
	}
	return problems, nil
}

// Learn takes in what another program has made of a segment.
func (s *Store) Learn(info segment.Info) {
	r, err := newRun(info)
	if err != nil {
		return // a reader of the segment is told that there is none
	}
	for i := range r.parts {
		r.parts[i].is = r.parts[i].length
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments[info.ID] = r
}

// Unlearn forgets a segment that another program has removed.
func (s *Store) Unlearn(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.segments, id)
}

// sizes lists the objects of all segments.
func (s *Store) sizes(ctx context.Context) (map[string]int64, error) {
	out := map[string]int64{}
	err := s.cfg.Bucket.List(ctx, folder, func(o bucket.Object) error {
		if strings.HasSuffix(o.Name, suffix) {
			out[o.Name] = o.Size
		}
		return nil
	})
	return out, err
}

// look notes how much there is of each part, and takes the objects off the list.
func (s *Store) look(ctx context.Context, r *run, sizes map[string]int64) error {
	for i := range r.parts {
		p := &r.parts[i]
		size, listed := sizes[p.name]
		delete(sizes, p.name)
		if !listed { // a listing may lag behind
			var err error
			if size, err = s.cfg.Bucket.Size(ctx, p.name); err != nil && !errors.Is(err, bucket.ErrNoObject) {
				return err
			}
		}
		p.is = min(size, p.length)
	}
	return nil
}

// reap removes the objects that belonged to no segment when the store was opened. One that cannot be removed now is found the next time.
func (s *Store) reap() {
	s.mu.Lock()
	orphans := s.orphans
	s.orphans = nil
	s.mu.Unlock()
	for _, name := range orphans {
		_ = s.cfg.Bucket.Remove(context.Background(), name)
	}
}

// size is how many bytes there are, up to the last one.
func (r *run) size() (n int64) {
	for _, p := range r.parts {
		if p.is > 0 {
			n = p.base + p.is
		}
	}
	return n
}

func (r *run) whole() bool {
	length := int64(0)
	for _, p := range r.parts {
		if p.is < p.length {
			return false
		}
		length += p.length
	}
	return length >= int64(r.info.Length)
}

// List implements segment.Store: what the objects' names say. Of several parts that begin at one place, all but one were never committed; that
// one is taken behind which another follows.
func (s *Store) List() (out []segment.Info, err error) {
	sizes, err := s.sizes(context.Background())
	if err != nil {
		return nil, err
	}
	found := map[string]map[int64][]part{} // by segment and place
	for name, size := range sizes {
		of, p, ok := partOf(name)
		if !ok {
			return nil, fmt.Errorf("%s is not named as the archive's objects are", name)
		}
		p.length, p.is = size, size
		if found[of] == nil {
			found[of] = map[int64][]part{}
		}
		found[of][p.base] = append(found[of][p.base], p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(found)) {
		id, created := parse(name)
		if id == 0 {
			return nil, fmt.Errorf("%s is not named as the archive's segments are", name)
		}
		r := &run{info: segment.Info{ID: id, Name: name, Created: created, Sealed: true}}
		r.parts = chain(found[name])
		r.info.Length, r.info.Parts = uint64(r.size()), encodeParts(r.parts)
		out = append(out, r.info)
		s.segments[id] = r
	}
	slices.SortFunc(out, func(a, b segment.Info) int { return int(a.ID) - int(b.ID) })
	return out, nil
}

// chain orders parts from the first to the last.
func chain(at map[int64][]part) (out []part) {
	for base := int64(0); len(at[base]) > 0; {
		options := at[base]
		slices.SortFunc(options, func(a, b part) int { return strings.Compare(a.name, b.name) })
		next := options[0]
		for _, p := range options {
			if len(at[base+p.length]) > 0 && p.length > 0 {
				next = p
			}
		}
		out = append(out, next)
		if next.length == 0 {
			break
		}
		base += next.length
	}
	return out
}

func (s *Store) run(id uint32) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.segments[id]
}

// Has implements segment.Store.
func (s *Store) Has(id uint32) bool { return s.run(id) != nil }

// Count implements segment.Store.
func (s *Store) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.segments)
}

// Place implements segment.Store: the object that holds the record, and where in it.
func (s *Store) Place(at segment.Location) segment.Place {
	r := s.run(at.Segment)
	if r == nil {
		return segment.Place{}
	}
	out := segment.Place{Name: r.info.Name, Offset: int64(at.Offset), Length: int64(at.Length)}
	for _, p := range r.parts {
		if int64(at.Offset) >= p.base && int64(at.Offset) < p.base+p.length {
			out.Name, out.Offset = strings.TrimPrefix(p.name, folder), int64(at.Offset)-p.base
		}
	}
	return out
}

// Free implements segment.Store.
func (s *Store) Free() (int64, error) {
	if s.cfg.Free == nil {
		return 1 << 60, nil
	}
	return s.cfg.Free()
}

// Cut implements segment.Store. What lies behind the cut goes with the next Recover, where it is an object of its own.
func (s *Store) Cut(info segment.Info, at segment.Location) (segment.Info, bool) {
	info.Length, info.Sealed = at.Offset, true
	if r, err := newRun(info); err == nil && info.Parts != "" {
		info.Parts = encodeParts(slices.DeleteFunc(r.parts, func(p part) bool { return p.base >= int64(at.Offset) }))
	}
	return info, at.Offset > 0
}

// Strays lists objects of the bucket that are in none of the segments, with the segments that their names say.
func (s *Store) Strays(ctx context.Context, committed []segment.Info) (out []segment.Stray, err error) {
	sizes, err := s.sizes(ctx)
	if err != nil {
		return nil, err
	}
	for _, info := range committed {
		r, err := newRun(info)
		if err != nil {
			return nil, err
		}
		for _, p := range r.parts {
			delete(sizes, p.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		of, _, ok := partOf(name)
		if id, _ := parse(of); ok && id > 0 { // else another program has put it there
			out = append(out, segment.Stray{Name: name, Segment: id})
		}
	}
	return out, nil
}

// Discard removes an object that Strays has listed.
func (s *Store) Discard(ctx context.Context, stray segment.Stray) error {
	return s.cfg.Bucket.Remove(ctx, stray.Name)
}

// Remove implements segment.Store. Where other programs may still read the objects, they stay, as strays.
func (s *Store) Remove(info segment.Info) error {
	s.mu.Lock()
	delete(s.segments, info.ID)
	s.mu.Unlock()
	if s.cfg.Next != nil {
		return nil
	}
	r, err := newRun(info)
	if err != nil {
		return err
	}
	for _, p := range r.parts {
		if err := s.cfg.Bucket.Remove(context.Background(), p.name); err != nil {
			return err
		}
	}
	return nil
}

// Import copies a segment of another store, sealed, into one object, unless it is there already. The ledger must then know it by what Import
// returns: locations stay as they are.
func (s *Store) Import(ctx context.Context, from segment.Store, info segment.Info) (segment.Info, error) {
	info.Sealed, info.Parts = true, ""
	name := folder + info.Name
	if size, err := s.cfg.Bucket.Size(ctx, name); err == nil && size == int64(info.Length) {
		return info, nil
	} else if err != nil && !errors.Is(err, bucket.ErrNoObject) {
		return info, err
	}
	in, out := io.Pipe()
	copied := make(chan error, 1)
	go func() {
		err := from.Copy(ctx, info, out)
		copied <- err
		_ = out.CloseWithError(err) // it never fails
	}()
	err := s.cfg.Bucket.PutFrom(ctx, name, in, int64(info.Length))
	_ = in.Close() // ends the copying, if it has not ended
	return info, errors.Join(err, <-copied)
}

// Close implements segment.Store.
func (s *Store) Close() error {
	s.writer = &writer{of: s}
	return nil
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }
