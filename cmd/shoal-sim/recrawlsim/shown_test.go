package recrawlsim

import "testing"

// TestShown has one page of two change at step 10, and back at 20: a copy is fresh while all its pages show what they showed when each was fetched.
func TestShown(t *testing.T) {
	s := &shown{copies: make([][]uint64, 1), at: func(_, page int, step float64) uint64 {
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
		if got := s.crawled(0, 2, c.from, c.to); got != c.changed {
			t.Errorf("crawled from %v to %v: changed %v", c.from, c.to, got)
		}
		if !s.fresh(0, c.fresh) || s.fresh(0, c.freshNot) {
			t.Errorf("crawled from %v to %v: not fresh at %v, or fresh at %v", c.from, c.to, c.fresh, c.freshNot)
		}
	}
}
