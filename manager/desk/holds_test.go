package desk

import (
	"strings"
	"testing"
	"time"

	"shoal/manager"
)

// TestWhatHoldsTheCrawlBack says in a sentence why threads are idle, or that there are too few.
func TestWhatHoldsTheCrawlBack(t *testing.T) {
	limits := manager.Holds{MinInterval: 2 * time.Second, Cap: 2}
	with := func(change func(h *manager.Holds)) manager.Holds {
		h := limits
		change(&h)
		return h
	}
	for _, c := range []struct {
		kind, want string
		idle       int
		holds      manager.Holds
	}{
		{"interval", "44 of 48 threads are idle: of 50 channels missing or probably stale and not being crawled, 46 wait for the minimum interval between two crawls, 2 s", 44,
			with(func(h *manager.Holds) { h.Stale, h.Under, h.Soon, h.Polite = 54, 4, 46, 4 })},
		{"cap", "2 times for each change", 44, with(func(h *manager.Holds) { h.Stale, h.Capped, h.Soon = 9, 6, 3 })},
		{"politeness", "5 wait for their hosts", 44, with(func(h *manager.Holds) { h.Stale, h.Polite = 5, 5 })},
		{"refusals", "3 were refused", 44, with(func(h *manager.Holds) { h.Stale, h.Denied = 3, 3 })},
		{"failures", "3 failed", 44, with(func(h *manager.Holds) { h.Stale, h.Failed = 3, 3 })},
		{"nothing came", "3 had a task of which nothing came", 44, with(func(h *manager.Holds) { h.Stale, h.Lost = 3, 3 })},
		{"blocks", "3 are on blocked hosts", 44, with(func(h *manager.Holds) { h.Stale, h.Block = 3, 3 })},
		{"strategy", "3 wait for the intervals", 44, with(func(h *manager.Holds) { h.Stale, h.Strict = 3, 3 })},
		{"end", "3 would not end before this run does", 44, with(func(h *manager.Holds) { h.Stale, h.Ending, h.Free = 5, 3, 2 })},
		{"placing", "3 wait for a free thread near", 44, with(func(h *manager.Holds) { h.Stale, h.Free = 3, 3 })},
		{"under way", "4 channels missing or probably stale, and all of these are being crawled", 44, with(func(h *manager.Holds) { h.Stale, h.Under = 4, 4 })},
		{"fresh", "44 of 48 threads are idle: no channel is missing, or more probably stale than fresh.", 44, limits},
		{"fresh", "more probably stale than fresh; 150 channels wait for the minimum interval between two crawls, 2 s, or the cap of 2 crawls for each change.", 44,
			with(func(h *manager.Holds) { h.Early = 150 })},
		{"capacity", "All 48 threads work, and 1 channel waits for one: more peers", 1, with(func(h *manager.Holds) { h.Stale, h.Under, h.Soon = 49, 48, 1 })},
		{"matched", "All 48 threads work, and no channel waits", 2, with(func(h *manager.Holds) { h.Stale, h.Under = 46, 46 })},
	} {
		o := manager.Overview{Channels: 100, Threads: 48, Idle: c.idle, Holds: c.holds}
		kind, got := holdsBack(&o)
		if kind != c.kind || !strings.Contains(got, c.want) || strings.Count(got, ".") != 1 {
			t.Errorf("%s: %q, want %s with %q", kind, got, c.kind, c.want)
		}
	}
	for what, o := range map[string]manager.Overview{"no channels": {Threads: 8}, "no peers": {Channels: 8}, "a full disk": {Channels: 8, Threads: 8, Blocking: []string{"full"}}} {
		if kind, why := holdsBack(&o); kind+why != "" {
			t.Errorf("%s: %q %q", what, kind, why)
		}
	}
}
