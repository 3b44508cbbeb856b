package manager_test

import (
	"testing"
	"time"

	"shoal/manager"
)

// One party's word that a channel cannot be fetched neither gives it up nor lengthens its pauses, however often it is said. Another party's peer that
// brings pages shows that the first one wasted its tasks.
func TestOnePartyGivesNoChannelUp(t *testing.T) {
	t.Parallel()
	const tries = 8
	var s *swarm
	b := open(t, t.TempDir(), func(c *manager.Config, sw *swarm) {
		s = sw
		waitsLong(c)
		s.fail, s.others = "https://a.example", 1
		c.Failing = manager.Failing{Pause: 10 * time.Millisecond, MaxPause: time.Hour, Limit: 3}
	})
	id := b.add(t, "https://a.example")[0]
	until(t, "more tries than a channel has", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.placed[id] >= tries
	})
	if r, _, _ := b.row(id); r.State != "failing" || r.Failed != 1 {
		t.Errorf("after %d failures by one party it is %s, with %d that count", tries, r.State, r.Failed)
	}
	if _, wasted := s.told(); wasted != 0 {
		t.Errorf("%d tasks count as wasted that no other party has crawled", wasted)
	}
	s.mu.Lock()
	s.fail, s.as = "", "other-0"
	s.mu.Unlock()
	until(t, "a crawl by another party", func() bool { r, _, _ := b.row(id); return r.Visits > 0 && r.Failed == 0 })
	until(t, "a wasted task", func() bool { _, wasted := s.told(); return wasted == 1 })
}

// After the first word that a crawl failed another party looks soon, whatever the pause after a failure is. If it brings pages, all is well.
func TestAnotherPartyLooksSoon(t *testing.T) {
	t.Parallel()
	var s *swarm
	b := open(t, t.TempDir(), func(c *manager.Config, sw *swarm) {
		s = sw
		waitsLong(c)
		s.fail, s.once, s.others, s.as = "https://a.example", true, 1, "other-0"
		c.Failing = manager.Failing{Pause: time.Hour, MaxPause: time.Hour}
	})
	id := b.add(t, "https://a.example")[0]
	until(t, "an update", func() bool { r, _, _ := b.row(id); return r.Visits > 0 && r.Failed == 0 })
	until(t, "a wasted task", func() bool { _, wasted := s.told(); return wasted == 1 })
}

// Whose failures count: another party's than the last one's that did, or all where there is one party only.
func TestComplaints(t *testing.T) {
	type word struct {
		account, prefix string
		alone, counts   bool
	}
	for what, words := range map[string][]word{
		"one account":                {{"a", "", false, true}, {"a", "", false, false}, {"a", "n", false, false}},
		"two accounts":               {{"a", "", false, true}, {"b", "", false, true}, {"b", "", false, false}, {"a", "", false, true}},
		"two accounts of a network":  {{"a", "n", false, true}, {"b", "n", false, false}},
		"two networks of an account": {{"a", "n", false, true}, {"a", "m", false, false}},
		"two of each":                {{"a", "n", false, true}, {"b", "m", false, true}},
		"a chain":                    {{"a", "n", false, true}, {"b", "n", false, false}, {"b", "m", false, true}},
		"one party only":             {{"a", "n", true, true}, {"a", "n", true, true}, {"b", "n", true, true}},
	} {
		c := manager.NewComplaints()
		for i, w := range words {
			if got := c.Failed(1, w.account, w.prefix, w.alone); got != w.counts {
				t.Errorf("%s: word %d counts: %v", what, i+1, got)
			}
		}
	}
}

// Peers of several names that have delivered nothing are one party, and another than those that have delivered.
func TestFreshPeersAreOneParty(t *testing.T) {
	for _, c := range []struct {
		b              string
		aFresh, bFresh bool
		same           bool
	}{{"b", true, true, true}, {"b", true, false, false}, {"b", false, false, false}, {"a", true, false, true}} {
		if got := manager.SameParty("a", c.aFresh, c.b, c.bFresh); got != c.same {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
