package manager

import "testing"

// TestErrandWithinTheBudget asks for more pages than may be asked for: as many are as may, and none where none may.
func TestErrandWithinTheBudget(t *testing.T) {
	er := errands{budget: 2.5}
	ask := func() (*errand, bool) {
		e := &errand{pages: make([]wanted, 5)}
		return e, er.ask(e)
	}
	if e, ok := ask(); !ok || len(e.pages) != 2 || er.counts.Asked != 2 || er.counts.Dropped != 3 {
		t.Errorf("%v: %d pages, %+v", ok, len(e.pages), er.counts)
	}
	if _, ok := ask(); ok || er.counts.Dropped != 8 || len(er.waits) != 1 {
		t.Errorf("with half a page left: %v, %+v", ok, er.counts)
	}
}
