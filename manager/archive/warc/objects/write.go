package objects

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"

	"shoal/manager/archive/segment"
)

// Append implements segment.Writer. Records gather in memory: the bytes of one commit are bounded by the ledger.
func (s *Store) Append(raw []byte, ends []int) ([]segment.Location, error) {
	if s.records == 0 {
		if err := s.roll(); err != nil {
			return nil, err
		}
	}
	base := s.base + int64(len(s.pending))
	s.pending = append(s.pending, raw...)
	s.records += uint64(len(ends))
	out := make([]segment.Location, len(ends))
	begin := 0
	for n, end := range ends {
		out[n] = segment.Location{Segment: s.out.info.ID, Offset: uint64(base) + uint64(begin), Length: uint32(end - begin)}
		begin = end
	}
	return out, nil
}

// Sync implements segment.Writer: it writes one object.
func (s *Store) Sync() ([]segment.Info, error) {
	if s.records == 0 {
		return s.finished, nil
	}
	if s.written == "" {
		tag := make([]byte, tagBytes)
		rand.Read(tag)
		name := partName(s.out.info.Name, s.base, tag)
		if err := s.cfg.Bucket.Put(context.Background(), name, s.pending); err != nil {
			s.torn = true
			s.discard(name)
			return nil, err
		}
		s.written = name
	}
	return append(slices.Clone(s.finished), s.appended().info), nil
}

// discard removes an object that will not be committed. If that fails, or a write arrives after it, Recover finds the object.
func (s *Store) discard(name string) { _ = s.cfg.Bucket.Remove(context.Background(), name) }

// appended is the segment with what is not committed.
func (s *Store) appended() *run {
	r := &run{info: s.out.info, parts: append(slices.Clone(s.out.parts), part{name: s.written, base: s.base, length: int64(len(s.pending)), is: int64(len(s.pending))})}
	r.info.Length, r.info.Records = uint64(s.base)+uint64(len(s.pending)), r.info.Records+s.records
	r.info.Parts = encodeParts(r.parts)
	return r
}

// Commit implements segment.Writer.
func (s *Store) Commit() {
	s.finished = nil
	s.reap()
	if s.records == 0 {
		return
	}
	s.out = s.appended()
	s.base, s.pending, s.records, s.written = int64(s.out.info.Length), s.pending[:0], 0, ""
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments[s.out.info.ID] = s.out
}

// Rollback implements segment.Writer. After a failed write the segment is ended: nothing is appended behind what is not known.
func (s *Store) Rollback() error {
	if s.written != "" {
		s.discard(s.written)
	}
	s.pending, s.records, s.written = s.pending[:0], 0, ""
	torn := s.torn
	s.torn = false
	switch {
	case s.out == nil:
	case s.base == 0: // the ledger has never heard of it
		s.out = nil
	case torn:
		s.finish()
	}
	return nil
}

// Seal implements segment.Writer.
func (s *Store) Seal() error {
	if s.out != nil {
		s.finish()
	}
	return nil
}

// finish has the next Sync tell that the segment is sealed.
func (s *Store) finish() {
	r := &run{info: s.out.info, parts: s.out.parts}
	r.info.Sealed = true
	s.finished = append(s.finished, r.info)
	s.mu.Lock()
	s.segments[r.info.ID] = r
	s.mu.Unlock()
	s.out, s.base = nil, 0
}

// roll sees to it that there is a segment to write to: the last one, or a new one when that is long enough.
func (s *Store) roll() error {
	if s.out != nil {
		if s.base < s.cfg.Roll && len(s.out.parts) < s.cfg.Parts {
			return nil
		}
		s.finish()
	}
	now := s.cfg.Clock().UTC()
	id := s.last + 1
	if s.cfg.Next != nil {
		var err error
		if id, err = s.cfg.Next(); err != nil {
			return err
		}
	}
	info := segment.Info{ID: id, Name: nameOf(now, id), Created: now}
	s.pending = s.pending[:0]
	if s.cfg.First != nil {
		first, err := s.cfg.First(info.Name, info.ID, now)
		if err != nil {
			return err
		}
		s.pending, s.records = append(s.pending, first...), 1
	}
	s.last = id
	s.out, s.base = &run{info: info}, 0
	return nil
}

func tagOf(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != tagBytes {
		return make([]byte, tagBytes)
	}
	return b
}
