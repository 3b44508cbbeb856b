package manager

import (
	"testing"

	"shoal/channel"
)

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

// TestNewcomersLeaveChecksForOthers has newcomers ask for all checks that they may have: half of what others' deliveries allow is left for those, and all of what newcomers'
// own do where there is nobody else.
func TestNewcomersLeaveChecksForOthers(t *testing.T) {
	ask := func(er *errands, fresh bool) (pages int) {
		for er.ask(&errand{fresh: fresh, pages: make([]wanted, 5)}) {
			pages += 5
		}
		return pages
	}
	er := &errands{}
	if er.allow(4000, false); ask(er, true) != 50 || ask(er, false) != 50 {
		t.Errorf("left: %v, of that for others than newcomers %v", er.budget, er.kept)
	}
	if er.allow(4000, true); ask(er, true) != 100 {
		t.Errorf("left in a network of newcomers: %v", er.budget)
	}
}

// TestAWholeCrawlOutlivesAnAudit has an audit take a generation of a channel whose whole crawl waits for room: the crawl is still to begin, so a restart orders it anew.
func TestAWholeCrawlOutlivesAnAudit(t *testing.T) {
	w := wholes{of: map[channel.ID]wholeCrawl{}}
	w.add(7, wholeCrawl{true, 4})
	w.skipped(7, 4, 5)
	if w.of[7] != (wholeCrawl{true, 5}) {
		t.Errorf("after an audit took a generation: %+v", w.of[7])
	}
	w.skipped(7, 6, 7) // it has begun: the generation before was its own
	w.skipped(8, 0, 1)
	if w.of[7] != (wholeCrawl{true, 5}) || len(w.of) != 1 {
		t.Errorf("%+v", w.of)
	}
}
