package manager_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/manager"
)

// TestGivenUpAfterFailedCrawls lets every crawl of one channel fail, and looks at what an operator is shown until it is given up and after.
func TestGivenUpAfterFailedCrawls(t *testing.T) {
	t.Parallel()
	var s *swarm
	b := open(t, t.TempDir(), func(c *manager.Config, sw *swarm) {
		s = sw
		s.fail = "https://dead.example"
		c.Failing = manager.Failing{Pause: 10 * time.Millisecond, MaxPause: 40 * time.Millisecond, Limit: 3}
	})
	ids := b.add(t, "https://dead.example", "https://well.example")
	dead := func() (state, reason string, failed, left int) {
		r, _, ok := b.row(ids[0])
		if !ok {
			t.Fatal("the channel is gone")
		}
		return r.State, r.Reason, r.Failed, r.Left
	}
	givenUp := func() bool { state, _, _, _ := dead(); return state == "given up" }
	until(t, "give it up", givenUp)
	if _, why, failed, left := dead(); failed != 3 || left != 0 || why != "3 crawls in a row failed, the last one: nothing could be fetched (timeout 3 times, dns)" {
		t.Errorf("given up after %d, %d left: %s", failed, left, why)
	}
	tasks := func() int { s.mu.Lock(); defer s.mu.Unlock(); return s.placed[ids[0]] }
	n := tasks()
	updates := b.m.Overview().Updates
	until(t, "updates of the other one", func() bool { return b.m.Overview().Updates >= updates+3 })
	if tasks() != n {
		t.Error("it is handed out although it was given up")
	}
	if r, _, _ := b.row(ids[1]); r.Failed != 0 || r.State != "active" {
		t.Errorf("the other one: %+v", r)
	}
	if err := b.d.Pause(t.Context(), ids[0], false); err != nil {
		t.Fatal(err)
	}
	until(t, "give it up again", givenUp)
	if _, _, failed, _ := dead(); failed != 6 {
		t.Errorf("given up again after %d, want as many tries again", failed)
	}
	ch, err := b.db.Channel(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	until(t, "be kept", func() bool {
		ch, err = b.db.Channel(t.Context(), ids[0])
		return err == nil && ch.State == channel.Marked && ch.Learnt.Failed == 6
	})
	if !strings.HasPrefix(ch.Reason, "6 crawls in a row failed") {
		t.Errorf("the database has %q", ch.Reason)
	}

	s.mu.Lock()
	s.fail = ""
	s.mu.Unlock()
	if err := b.m.CrawlNow(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	until(t, "be active again", func() bool { state, _, failed, _ := dead(); return state == "active" && failed == 0 })
}

func TestPauses(t *testing.T) {
	f := manager.Default().Failing
	total := time.Duration(0)
	for n := 1; n < f.Limit; n++ {
		p := manager.PauseAfter(f, n)
		if p < f.Pause || p > f.MaxPause {
			t.Errorf("a pause of %v after %d", p, n)
		}
		total += p
	}
	if total < 5*24*time.Hour {
		t.Errorf("a host that is away for %v is given up, want five days", total)
	}
	if p := manager.PauseAfter(manager.Failing{}, 7); p != 0 {
		t.Errorf("without pauses it waits %v", p)
	}
}

func TestCrawlNowOfABlockedHost(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(_ *manager.Config, s *swarm) { s.recalls = true })
	ids := b.add(t, "https://a.example")
	if err := b.d.Block(t.Context(), "a.example", "asked to"); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing out", func() bool { r, _, _ := b.row(ids[0]); return !r.Out })
	if err := b.m.CrawlNow(t.Context(), ids[0]); err == nil || !strings.Contains(err.Error(), "asked to") || !strings.Contains(err.Error(), "unblock") {
		t.Errorf("crawl now of a blocked host: %v", err)
	}
}

// The pause after a failed crawl outlives a restart, and so does that an operator ended one.
func TestPauseOutlivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var s *swarm
	setup := func(c *manager.Config, sw *swarm) {
		s = sw
		s.fail = "https://dead.example"
		c.Failing = manager.Failing{Pause: time.Hour, MaxPause: time.Hour, Limit: 100}
	}
	b := open(t, dir, setup)
	ids := b.add(t, "https://dead.example", "https://well.example")
	placed := func() int { s.mu.Lock(); defer s.mu.Unlock(); return s.placed[ids[0]] }
	failed := func(n int) func() bool {
		return func() bool { r, _, _ := b.row(ids[0]); return r.Failed == n }
	}
	restart := func() {
		t.Helper()
		b.stop()
		b = open(t, dir, setup)
		updates := b.m.Overview().Updates
		until(t, "updates of the other one", func() bool { return b.m.Overview().Updates >= updates+3 })
	}
	until(t, "the first failure", failed(1))
	restart()
	if n := placed(); n != 0 {
		t.Fatalf("it is handed out %d times within the pause", n)
	}
	if err := b.d.Pause(t.Context(), ids[0], true); err != nil {
		t.Fatal(err)
	}
	restart()
	if err := b.d.Pause(t.Context(), ids[0], false); err != nil {
		t.Fatal(err)
	}
	until(t, "the crawl after the operator's word", failed(2))
}

// A channel whose very first crawl fails is tried again after the pause, not after its group's interval, of which nothing is known yet.
func TestFirstFailureIsRetriedSoon(t *testing.T) {
	t.Parallel()
	var s *swarm
	b := open(t, t.TempDir(), func(c *manager.Config, sw *swarm) {
		s = sw
		s.fail = "https://new.example"
		waitsLong(c)
		c.Failing = manager.Failing{Pause: 10 * time.Millisecond, MaxPause: 40 * time.Millisecond, Limit: 100}
	})
	ids := b.add(t, "https://new.example", "https://well.example")
	until(t, "two more tries", func() bool { r, _, _ := b.row(ids[0]); return r.Failed >= 3 })
	s.mu.Lock()
	s.fail = ""
	s.mu.Unlock()
	until(t, "the crawl that succeeds", func() bool { r, _, _ := b.row(ids[0]); return r.Visits == 1 && r.Failed == 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.placed[ids[1]]; n != 1 {
		t.Errorf("the channel that does not fail was crawled %d times within an interval of half an hour", n)
	}
}

// TestPausedChannelIsNotHandedOutAgain pauses channels whose tasks came to nothing and wait to be handed out again, at the first or at the next manager: they wait no more,
// and are crawled when they are resumed.
func TestPausedChannelIsNotHandedOutAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	setup := func(c *manager.Config, s *swarm) {
		s.ignore = true
		c.Terms.ClaimWait, c.Terms.Backoff, c.Terms.MaxBackoff = 50*time.Millisecond, time.Hour, time.Hour
	}
	b := open(t, dir, setup)
	ids := b.add(t, "https://a.example", "https://b.example")
	waits := func(n int) func() bool {
		return func() bool {
			i, err := b.m.Strategy(t.Context())
			return err == nil && i.Sequencers.Sites == 0 && i.Sequencers.NowWaits == n
		}
	}
	until(t, "both to wait", waits(2))
	if err := b.d.Pause(t.Context(), ids[0], true); err != nil {
		t.Fatal(err)
	}
	until(t, "the paused one to wait no more", waits(1))
	b.stop()
	b = open(t, dir, setup)
	until(t, "only the other one to wait", waits(1))
	b.stop()

	db, err := badgerdb.Open(t.Context(), badgerdb.Default(dir+"/db")) // the other one is paused while nothing runs
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), epoch, ids[1], func(ch *channel.Channel) { ch.State = channel.Paused })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	b = open(t, dir, nil) // which awaits claims for longer: on a busy machine they may be late
	until(t, "none to wait", waits(0))
	for _, id := range ids {
		if err := b.d.Pause(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
		until(t, "a crawl of the resumed one", func() bool { r, _, ok := b.row(id); return ok && r.Visits > 0 })
	}
}

// TestReasonsNameFailures: what a crawl found and kept to is no reason why it failed.
func TestReasonsNameFailures(t *testing.T) {
	r := &channel.Report{Reason: "the last page broke off", Errors: map[string]int{"signalled": 400, "signal-right": 90, "noindex": 70, "noarchive": 60, "expired": 50, "skipped-nofollow": 80, "http-500": 30}}
	if got, want := manager.WhatFailed(r), "the last page broke off (http-500 30 times)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
