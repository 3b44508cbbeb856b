package recrawlsim

import "testing"

// TestShown has one page of two change at step 10, and back at 20: a copy is fresh while all its pages show what they showed when each was fetched.
func TestShown(t *testing.T) {
	s := &shown{copies: make([][]uint64, 1), news: make([]bool, 1), at: func(_, page int, step float64) uint64 {
		if page == 1 && step >= 10 && step < 20 {
			return 7
		}
		return 0
	}}
	if s.fresh(0, 1) {
		t.Error("fresh before it was crawled")
	}
	for _, c := range []struct {
		from, to        float64
		changed         bool
		fresh, freshNot float64
	}{
		{2, 4, true, 5, 15},
		{5, 7, false, 9, 11},
		{8, 12, true, 15, 25}, // its second page was fetched after the change
		{18, 22, true, 25, 19},
	} {
		s.part(0, 2, 0, 2, c.from, c.to)
		if got := s.ended(0); got != c.changed {
			t.Errorf("crawled from %v to %v: changed %v", c.from, c.to, got)
		}
		if !s.fresh(0, c.fresh) || s.fresh(0, c.freshNot) {
			t.Errorf("crawled from %v to %v: not fresh at %v, or fresh at %v", c.from, c.to, c.fresh, c.freshNot)
		}
	}
}

// TestShownInParts has a crawl be broken off after its first page, which changes before the second one is fetched by another peer.
func TestShownInParts(t *testing.T) {
	s := &shown{copies: make([][]uint64, 1), news: make([]bool, 1), at: func(_, page int, step float64) uint64 {
		if page == 0 && step >= 10 {
			return 7
		}
		return 0
	}}
	s.part(0, 2, 0, 1, 2, 4)
	s.part(0, 2, 1, 2, 18, 20)
	if !s.ended(0) || s.fresh(0, 20) {
		t.Error("what changed between the parts of its first crawl is fresh, or nothing of it was new")
	}
	s.part(0, 2, 0, 1, 21, 22) // the next crawl stores that, and is broken off in its turn
	if !s.fresh(0, 22) {
		t.Error("what all pages show is stored, and it is stale")
	}
	s.part(0, 2, 1, 2, 30, 31)
	if !s.ended(0) || s.ended(0) {
		t.Error("what the first part of a crawl found is not new, or is new twice")
	}
}
