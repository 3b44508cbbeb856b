package manager_test

import (
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/desk"
)

// A host is blocked when the one account that there is has said twice that it refuses; in between it waits.
func TestAHostIsNotBlockedOnOneWord(t *testing.T) {
	t.Parallel()
	var s *swarm
	b := open(t, t.TempDir(), func(c *manager.Config, sw *swarm) {
		s = sw
		waitsLong(c)
		s.refuses = "https://a.example"
		c.Failing = manager.Failing{Pause: 50 * time.Millisecond, MaxPause: 50 * time.Millisecond}
	})
	id := b.add(t, "https://a.example")[0]
	host := func() string {
		h, err := b.db.Host(t.Context(), "https://a.example")
		if err != nil {
			t.Fatal(err)
		}
		return h.Blocked
	}
	until(t, "be blocked", func() bool { return host() != "" })
	s.mu.Lock()
	n := s.placed[id]
	s.mu.Unlock()
	if n != 2 || host() != "peers report: go away" {
		t.Errorf("blocked after %d crawls: %q", n, host())
	}
}

// Who must say that a host refuses: two accounts, or one twice where there is no other.
func TestAccused(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	type word struct {
		by    string
		alone bool
		sure  bool
	}
	for what, words := range map[string][]word{
		"two accounts":         {{"a", false, false}, {"b", false, true}},
		"one account":          {{"a", false, false}, {"a", false, false}, {"a", false, false}, {"b", false, true}},
		"one account, alone":   {{"a", true, false}, {"a", true, true}},
		"anew after the block": {{"a", false, false}, {"b", false, true}, {"b", false, false}},
	} {
		a := manager.NewAccused()
		for i, w := range words {
			if sure := a.Accuse(now, 1, w.by, w.alone); sure != w.sure {
				t.Errorf("%s: word %d: enough to block %v", what, i+1, sure)
			}
		}
	}
	a := manager.NewAccused()
	for i := range 40_000 {
		a.Accuse(now.Add(time.Duration(i)), channel.HostKey(i+1), "a", false)
	}
	if len(a) > 20_000 || a.Accuse(now, 40_000, "b", false) == false {
		t.Errorf("%d notes are kept, the last one not among them", len(a))
	}
}

// One party's word that a host refuses, however often it is said, neither blocks the host nor makes it wait longer each time.
func TestOnePartyBlocksNoHost(t *testing.T) {
	t.Parallel()
	var s *swarm
	b := open(t, t.TempDir(), func(c *manager.Config, sw *swarm) {
		s = sw
		s.refuses, s.others = "https://a.example", 1
		c.Failing = manager.Failing{Pause: 10 * time.Millisecond, MaxPause: time.Hour}
	})
	id := b.add(t, "https://a.example")[0]
	until(t, "ten tries", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.placed[id] >= 10
	})
	if h, err := b.db.Host(t.Context(), "https://a.example"); err != nil || h.Blocked != "" {
		t.Errorf("blocked: %q, %v", h.Blocked, err)
	}
}

// TestARefusingSiteIsSeen has a host refuse the first crawl of a channel, which is not blocked on that one word: all that an operator looks at says so.
func TestARefusingSiteIsSeen(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(c *manager.Config, s *swarm) {
		s.refuses = "https://a.example"
		c.Failing = manager.Failing{Pause: time.Hour, MaxPause: time.Hour, Limit: 3}
	})
	id := b.add(t, "https://a.example")[0]
	until(t, "a refusal", func() bool { r, _, _ := b.row(id); return r.Last == "blocked by its host" && !r.Out })
	r, _, _ := b.row(id)
	if r.State != desk.Failing || r.Reason != "go away" || r.Left != 0 {
		t.Errorf("%s, %q, given up after %d more", r.State, r.Reason, r.Left)
	}
	if left := time.Until(r.Due); left < 50*time.Minute || left > 70*time.Minute {
		t.Errorf("tried again in %v, want an hour", left)
	}
	if rows, n, err := b.d.Rows(t.Context(), desk.Find{State: desk.Failing, N: 10}); err != nil || n != 1 || len(rows) != 1 {
		t.Errorf("%d failing: %v, %v", n, rows, err)
	}
	for _, f := range b.d.Check(t.Context()) {
		if strings.Contains(f.What, "1 channel is failing") {
			return
		}
	}
	t.Errorf("a check does not name it: %v", b.d.Check(t.Context()))
}
