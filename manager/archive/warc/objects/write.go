package objects

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"

	"shoal/manager/archive/segment"
)

// writer writes one segment at a time. Several of a store may write at once, each to segments of its own. Its methods are called by one goroutine at
// a time.
type writer struct {
	of *Store

	out      *run   // nil: the next record begins a new segment
	base     int64  // in out, where pending begins: its committed length
	pending  []byte // appended since the last commit
	records  uint64 // likewise
	written  string // the part that Sync wrote of pending; empty: none
	torn     bool   // a write has failed
	finished []segment.Info
}

var _ segment.Many = (*Store)(nil)

// Another implements segment.Many.
func (s *Store) Another() segment.Writer {
	w := &writer{of: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.resume()
	return w
}

// resume goes on with a segment that was being written when the store was last closed, if there is one without a writer. The store is locked.
func (w *writer) resume() {
	if open := w.of.open; len(open) > 0 {
		w.out, w.base, w.of.open = open[0], int64(open[0].info.Length), open[1:]
	}
}

// Append implements segment.Writer. Records gather in memory: the bytes of one commit are bounded by the ledger.
func (w *writer) Append(raw []byte, ends []int) ([]segment.Location, error) {
	if w.records == 0 {
		if err := w.roll(); err != nil {
			return nil, err
		}
	}
	base := w.base + int64(len(w.pending))
	w.pending = append(w.pending, raw...)
	w.records += uint64(len(ends))
	out := make([]segment.Location, len(ends))
	begin := 0
	for n, end := range ends {
		out[n] = segment.Location{Segment: w.out.info.ID, Offset: uint64(base) + uint64(begin), Length: uint32(end - begin)}
		begin = end
	}
	return out, nil
}

// Sync implements segment.Writer: it writes one object.
func (w *writer) Sync() ([]segment.Info, error) {
	if w.records == 0 {
		return w.finished, nil
	}
	if w.written == "" {
		tag := make([]byte, tagBytes)
		rand.Read(tag)
		name := partName(w.out.info.Name, w.base, tag)
		if err := w.of.cfg.Bucket.Put(context.Background(), name, w.pending); err != nil {
			w.torn = true
			w.discard(name)
			return nil, err
		}
		w.written = name
	}
	return append(slices.Clone(w.finished), w.appended().info), nil
}

// discard removes an object that will not be committed. If that fails, or a write arrives after it, Recover finds the object.
func (w *writer) discard(name string) { _ = w.of.cfg.Bucket.Remove(context.Background(), name) }

// appended is the segment with what is not committed.
func (w *writer) appended() *run {
	r := &run{info: w.out.info, parts: append(slices.Clone(w.out.parts), part{name: w.written, base: w.base, length: int64(len(w.pending)), is: int64(len(w.pending))})}
	r.info.Length, r.info.Records = uint64(w.base)+uint64(len(w.pending)), r.info.Records+w.records
	r.info.Parts = encodeParts(r.parts)
	return r
}

// Commit implements segment.Writer.
func (w *writer) Commit() {
	w.finished = nil
	w.of.reap()
	if w.records == 0 {
		return
	}
	w.out = w.appended()
	w.base, w.pending, w.records, w.written = int64(w.out.info.Length), w.pending[:0], 0, ""
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.of.segments[w.out.info.ID] = w.out
}

// Rollback implements segment.Writer. After a failed write the segment is ended: nothing is appended behind what is not known.
func (w *writer) Rollback() error {
	if w.written != "" {
		w.discard(w.written)
	}
	w.pending, w.records, w.written = w.pending[:0], 0, ""
	torn := w.torn
	w.torn = false
	switch {
	case w.out == nil:
	case w.base == 0: // the ledger has never heard of it
		w.out = nil
	case torn:
		w.finish()
	}
	return nil
}

// Seal implements segment.Writer.
func (w *writer) Seal() error {
	if w.out != nil {
		w.finish()
	}
	return nil
}

// finish has the next Sync tell that the segment is sealed.
func (w *writer) finish() {
	r := &run{info: w.out.info, parts: w.out.parts}
	r.info.Sealed = true
	w.finished = append(w.finished, r.info)
	w.of.mu.Lock()
	if w.of.segments[r.info.ID] != nil { // else another program has removed it
		w.of.segments[r.info.ID] = r
	}
	w.of.mu.Unlock()
	w.out, w.base = nil, 0
}

// roll sees to it that there is a segment to write to: the last one, or a new one when that is long enough.
func (w *writer) roll() error {
	if w.out != nil {
		if w.base < w.of.cfg.Roll && len(w.out.parts) < w.of.cfg.Parts {
			return nil
		}
		w.finish()
	}
	if w.of.mu.Lock(); len(w.of.open) > 0 {
		w.resume()
		w.of.mu.Unlock()
		return w.roll()
	}
	w.of.mu.Unlock()
	now := w.of.cfg.Clock().UTC()
	id, err := w.of.next()
	if err != nil {
		return err
	}
	info := segment.Info{ID: id, Name: nameOf(now, id), Created: now}
	w.pending = w.pending[:0]
	if w.of.cfg.First != nil {
		first, err := w.of.cfg.First(info.Name, info.ID, now)
		if err != nil {
			return err
		}
		w.pending, w.records = append(w.pending, first...), 1
	}
	w.out, w.base = &run{info: info}, 0
	return nil
}

// next gives the ID of a new segment.
func (s *Store) next() (uint32, error) {
	if s.cfg.Next != nil {
		return s.cfg.Next()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	return s.last, nil
}

func tagOf(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != tagBytes {
		return make([]byte, tagBytes)
	}
	return b
}
