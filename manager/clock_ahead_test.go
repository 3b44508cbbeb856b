package manager_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"shoal/manager"
)

// TestClockThatWasAhead has a manager crawl by a clock that is four minutes ahead, and start anew by one that is right: its channels do not wait until that time comes.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, nil) // which is when its ticks begin
	id := b.add(t, "https://one.example")[0]
	b.stop()
	b = open(t, dir, func(c *manager.Config, _ *swarm) { c.Now = func() time.Time { return time.Now().Add(4 * time.Minute) } })
	r, _, _ := b.row(id)
	until(t, "a crawl", func() bool { n, _, _ := b.row(id); return n.Visits > r.Visits })
	pause := func(paused bool) {
		if err := b.d.Pause(t.Context(), id, paused); err != nil {
			t.Fatal(err)
		}
	}
	pause(true) // so that no task is out, which may be claimed as long as its header says
	b.settled(t)
	b.stop()
	b = open(t, dir, nil)
	pause(false)
	r, _, _ = b.row(id)
	until(t, "another one", func() bool { n, _, ok := b.row(id); return ok && n.Visits > r.Visits })
}

// TestFirstStartByAClockThatWasAhead has a network begin by a clock that is four minutes ahead and is set right, as the manager runs or before it starts anew: channels are
// crawled as before.
func TestFirstStartByAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var ahead atomic.Int64
	clock := func(c *manager.Config, _ *swarm) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	ahead.Store(int64(4 * time.Minute))
	b := open(t, dir, clock)
	id := b.add(t, "https://one.example")[0]
	crawled := func() {
		t.Helper()
		r, _, _ := b.row(id)
		until(t, "a crawl", func() bool { n, _, ok := b.row(id); return ok && n.Visits > r.Visits })
	}
	pause := func(paused bool) {
		t.Helper()
		if err := b.d.Pause(t.Context(), id, paused); err != nil {
			t.Fatal(err)
		}
	}
	crawled()
	pause(true) // so that no task is out, which may be claimed as long as its header says
	b.settled(t)
	ahead.Store(0)
	select {
	case err := <-b.over:
		if !errors.Is(err, manager.ErrSetBack) {
			t.Fatalf("it ended with %v, want %v", err, manager.ErrSetBack)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on by ticks that do not pass")
	}
	b.stop()
	b = open(t, dir, clock)
	pause(false)
	crawled()
}
