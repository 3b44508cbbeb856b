package manager_test

import (
	"errors"
	"slices"
	"strings"
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

// TestAwaitedNoLongerAfterAClockThatWasAhead has a peer take a task by a clock that is four minutes ahead, and never claim it: a manager that starts by one that is right awaits the claim for no longer than
// the first one meant to.
func TestAwaitedNoLongerAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	const ahead = 4 * time.Minute
	dir := t.TempDir()
	begin := func(ahead time.Duration) *bench {
		return open(t, dir, func(c *manager.Config, s *swarm) {
			waitsLong(c)
			s.ignore = true
			c.Now = func() time.Time { return time.Now().Add(ahead) }
		})
	}
	b := begin(0) // which is when its ticks begin
	b.stop()
	b = begin(ahead)
	id := b.add(t, "https://one.example")[0] // not before: the first manager would hand it out
	var meant time.Time
	until(t, "a peer to take it", func() bool {
		r, _, _ := b.row(id)
		meant = r.Awaited
		return r.Out && b.m.Overview().Accepted > 0 && !meant.IsZero()
	})
	b.stop()
	for range 2 {
		b = begin(0)
		r, _, _ := b.row(id)
		if sooner := meant.Sub(r.Awaited); !r.Out || sooner < ahead-time.Minute || r.Awaited.Before(time.Now()) {
			t.Errorf("it is out: %v, and awaited %v less, want about %v", r.Out, sooner, ahead)
		}
		b.stop()
	}
}

// TestClockThatWasFarAhead has a manager crawl by a clock that is more than a month of minutes ahead, and start anew by one that is right: an operator is told that a channel waits until
// that time comes. Once he has said that the clock is right it does not, nor after a further start.
func TestClockThatWasFarAhead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// begin opens a manager by whose ticks a month of minutes are two minutes: archives refuse tasks by clocks that are more than five apart.
	begin := func(ahead time.Duration, right bool) *bench {
		return open(t, dir, func(c *manager.Config, _ *swarm) {
			c.Tick, c.ClockRight = 3*time.Millisecond, right
			c.Now = func() time.Time { return time.Now().Add(ahead) }
		})
	}
	b := begin(0, false)
	id := b.add(t, "https://one.example")[0]
	pause := func(paused bool) {
		t.Helper()
		if err := b.d.Pause(t.Context(), id, paused); err != nil {
			t.Fatal(err)
		}
	}
	crawled := func() {
		t.Helper()
		r, _, _ := b.row(id)
		pause(false)
		until(t, "a crawl", func() bool { n, _, ok := b.row(id); return ok && n.Visits > r.Visits })
		pause(true) // so that no task is out, which may be claimed as long as its header says
		b.settled(t)
		b.stop()
	}
	crawled()
	b = begin(4*time.Minute, false)
	crawled()
	told := func() bool {
		until(t, "a look", func() bool { o := b.m.Overview(); return o.Now.Sub(o.Started) > time.Second })
		return slices.ContainsFunc(b.m.Overview().Notices, func(n string) bool {
			return strings.HasPrefix(n, "One channel is dated up to ") && strings.Contains(n, "--clock-right")
		})
	}
	for k, want := range []bool{true, true, false, false} {
		b = begin(0, k == 2)
		if told() != want {
			t.Errorf("start %d: an operator is told of a channel dated in the future: %v", k, !want)
		}
		b.stop()
	}
}
