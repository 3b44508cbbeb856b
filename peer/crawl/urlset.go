package crawl

import (
	"math/bits"
)

// seenSet is a set of 64-bit URL hashes: open addressing with linear probing in a slice that grows by half. A million URLs take about 11 MB.
// Owned by the session.
type seenSet struct {
	slots []uint64 // 0: free
	n     int
	zero  bool // the hash 0 is in
}

func newSeen(expect int) *seenSet { return &seenSet{slots: make([]uint64, max(expect*4/3, 64))} }

// add adds h and tells whether it is new.
func (s *seenSet) add(h uint64) bool {
	if h == 0 {
		was := s.zero
		s.zero = true
		return !was
	}
	i := s.find(h)
	if s.slots[i] == h {
		return false
	}
	if s.n++; s.n*5 > len(s.slots)*4 {
		s.grow()
		i = s.find(h)
	}
	s.slots[i] = h
	return true
}

func (s *seenSet) has(h uint64) bool {
	if h == 0 {
		return s.zero
	}
	return s.slots[s.find(h)] == h
}

// find gives the slot of h, or the free one where it belongs.
func (s *seenSet) find(h uint64) int {
	hi, _ := bits.Mul64(h, uint64(len(s.slots)))
	i := int(hi)
	for s.slots[i] != 0 && s.slots[i] != h {
		if i++; i == len(s.slots) {
			i = 0
		}
	}
	return i
}

func (s *seenSet) grow() {
	old := s.slots
	s.slots = make([]uint64, len(old)+len(old)/2)
	for _, h := range old {
		if h != 0 {
			s.slots[s.find(h)] = h
		}
	}
}
