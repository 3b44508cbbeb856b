package manager_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
)

// A channel of which something was withdrawn while it was crawled is crawled once more when that crawl is over, which leaves out what was delivered before. Of one
// that is not out it is begun at once.
func TestWholeCrawlFollows(t *testing.T) {
	t.Parallel()
	amid, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b := open(t, t.TempDir(), func(_ *manager.Config, s *swarm) {
		s.amid = func(channel.Header) bool {
			once.Do(func() { close(amid) })
			<-goOn
			return false
		}
	})
	id := b.add(t, "https://a.example")[0]
	<-amid
	until(t, "it is out", func() bool { r, _, ok := b.row(id); return ok && r.Out })
	if err := b.m.CrawlNow(t.Context(), id); !errors.Is(err, manager.ErrAsk) {
		t.Fatalf("crawl now of a channel that is out: %v", err)
	}
	if err := b.m.CrawlWhole(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	followed := func() (n int) {
		_, events, _ := b.row(id)
		for _, e := range events {
			if e.What == "crawl now" && strings.Contains(e.Note, "withdrawn") {
				n++
			}
		}
		return n
	}
	if n := followed(); n != 0 {
		t.Errorf("a whole crawl was begun %d times beside one that is under way", n)
	}
	close(goOn)
	until(t, "the whole crawl is begun", func() bool { return followed() == 1 })
	until(t, "it is crawled", func() bool { r, _, ok := b.row(id); return ok && r.Visits >= 2 })
	if n := followed(); n != 1 {
		t.Errorf("a whole crawl was begun %d times", n)
	}
}

// TestWholeCrawlOutlivesARestart has a manager end while the crawl is under way that a whole crawl is to follow: the next manager begins it, once.
func TestWholeCrawlOutlivesARestart(t *testing.T) {
	t.Parallel()
	dir, amid, goOn := t.TempDir(), make(chan struct{}), make(chan struct{})
	var once sync.Once
	b := open(t, dir, func(_ *manager.Config, s *swarm) {
		s.amid = func(channel.Header) bool {
			once.Do(func() { close(amid) })
			<-goOn
			return false
		}
	})
	id := b.add(t, "https://a.example")[0]
	<-amid
	until(t, "it is out", func() bool { r, _, ok := b.row(id); return ok && r.Out })
	if err := b.m.CrawlWhole(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { b.stop(); close(stopped) }()
	until(t, "the manager has ended", func() bool { return errors.Is(b.m.CrawlNow(t.Context(), id), manager.ErrStopped) })
	close(goOn) // the crawl ends while no manager runs
	<-stopped
	b = open(t, dir, nil)
	followed := func() (n int) {
		_, events, _ := b.row(id)
		for _, e := range events {
			if e.What == "crawl now" && strings.Contains(e.Note, "withdrawn") {
				n++
			}
		}
		return n
	}
	until(t, "the whole crawl is begun", func() bool { return followed() == 1 })
	until(t, "it is crawled", func() bool { r, _, ok := b.row(id); return ok && r.Visits >= 3 })
	if n := followed(); n != 1 {
		t.Errorf("a whole crawl was begun %d times", n)
	}
}

// TestAskedCrawlOutlivesARestart has an operator ask for a crawl of a paused channel while no peer takes a task, and the manager end: the next manager has it crawled, once.
func TestAskedCrawlOutlivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, func(c *manager.Config, s *swarm) { waitsLong(c); s.refuse = true })
	id := b.add(t, "https://a.example")[0]
	if err := b.d.Pause(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	b.settled(t)
	if err := b.m.CrawlNow(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	refused := b.m.Overview().Refused
	until(t, "it is refused", func() bool { return b.m.Overview().Refused > refused+1 })
	b.stop()
	for range 2 { // the second one finds that it is done
		b = open(t, dir, nil)
		until(t, "it is crawled", func() bool { r, _, ok := b.row(id); return ok && r.Visits == 1 && !r.Out })
		looks(t, b)
		if r, _, _ := b.row(id); r.Visits != 1 || r.State != "paused" {
			t.Errorf("it was crawled %d times, and is %s; want once, and paused", r.Visits, r.State)
		}
		b.settled(t)
		b.stop()
	}
}

// TestEndAwaitsAnswers ends a manager while a peer thinks about an offer, and then refuses: the next manager hands the task out at once. Where nothing was known of
// the answer, it would have to wait for a claim until the latest start.
func TestEndAwaitsAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asks := make(chan func())
	b := open(t, dir, func(c *manager.Config, s *swarm) { waitsLong(c); s.refuse, s.asks = true, asks })
	id := b.add(t, "https://a.example")[0]
	answer := <-asks
	over := make(chan struct{})
	go func() { b.stop(); close(over) }()
	select {
	case <-over:
		t.Error("it has ended without the answer")
	case <-time.After(100 * time.Millisecond):
	}
	answer()
	<-over
	b = open(t, dir, nil)
	until(t, "it is crawled", func() bool { r, _, ok := b.row(id); return ok && r.Visits > 0 })
}

// TestPauseOverrulesWhatWasAsked has an operator pause a channel after asking for a crawl that no peer has taken, and the manager end: the next one leaves it alone.
func TestPauseOverrulesWhatWasAsked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, func(c *manager.Config, s *swarm) { waitsLong(c); s.refuse = true })
	id := b.add(t, "https://a.example")[0]
	if err := b.d.Pause(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	b.settled(t)
	if err := b.m.CrawlNow(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := b.d.Pause(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	b.settled(t)
	b.stop()
	b = open(t, dir, nil)
	looks(t, b)
	if r, _, ok := b.row(id); !ok || r.Visits > 0 || r.Out || r.State != "paused" {
		t.Errorf("it was crawled %d times, is out: %t, and is %s", r.Visits, r.Out, r.State)
	}
}

// TestWholeCrawlLeavesTheResting has something withdrawn of a channel that an operator has paused: it is left alone.
func TestWholeCrawlLeavesTheResting(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	id := b.add(t, "https://a.example")[0]
	until(t, "it is crawled", func() bool { r, _, ok := b.row(id); return ok && r.Visits >= 1 })
	if err := b.m.Pause(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing is out", func() bool { r, _, ok := b.row(id); return ok && !r.Out })
	before, _, _ := b.row(id)
	if err := b.m.CrawlWhole(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if count, err := b.d.PurgeCount(t.Context(), "peer"); err != nil || count.Pages == 0 {
		t.Fatalf("%+v, %v", count, err)
	}
	if err := b.d.StartPurge(t.Context(), "peer"); err != nil {
		t.Fatal(err)
	}
	until(t, "all is taken back", func() bool {
		left, err := b.d.PurgeCount(t.Context(), "peer")
		return err == nil && left.Captures == 0 && b.d.Purging() == nil
	})
	after, events, _ := b.row(id)
	for _, e := range events {
		if e.What == "crawl now" {
			t.Errorf("%s of a channel that is paused, %s", e.What, e.Note)
		}
	}
	if after.Visits != before.Visits || after.Out || after.State != before.State {
		t.Errorf("it was crawled %d times, and is %s; want %d and %s", after.Visits, after.State, before.Visits, before.State)
	}
}

// TestMoreRoomIsNoChange crawls a site in two visits, since the first has not room for all of it: its pages are new in the second, and nothing has changed.
func TestMoreRoomIsNoChange(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(_ *manager.Config, s *swarm) { s.grows = "https://a.example" })
	id := b.add(t, "https://a.example")[0]
	until(t, "three visits", func() bool { r, _, ok := b.row(id); return ok && r.Visits >= 3 })
	if r, _, _ := b.row(id); r.Pages != 4 || r.Changes != 0 {
		t.Errorf("%d pages, of which %d visits found a change; want 4 and none", r.Pages, r.Changes)
	}
}
