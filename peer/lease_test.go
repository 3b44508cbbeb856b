package peer

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel"
	"shoal/internal/wire"
	"shoal/internal/wire/uplink"
)

// leaser is an archive that renews for a term, or is away.
type leaser struct {
	term  time.Duration
	away  atomic.Bool
	fence atomic.Bool
	over  atomic.Bool // the lease has lapsed, and no other peer has claimed
}

func (l *leaser) answer(st uplink.Status) (uplink.Reply, error) {
	switch {
	case l.away.Load():
		return uplink.Reply{}, wire.Busy
	case l.fence.Load():
		return uplink.Reply{Status: uplink.Fenced}, nil
	case l.over.Load():
		return uplink.Reply{Status: st}, nil
	}
	return uplink.Reply{Status: st, Left: l.term}, nil
}

func (l *leaser) Put(context.Context, channel.Chunk) (uplink.Reply, error) {
	return l.answer(uplink.Stored)
}

func (l *leaser) Renew(context.Context, channel.Signed) (uplink.Reply, error) {
	return l.answer(uplink.Granted)
}

// leased is a running job with a lease of l.
func leased(t *testing.T, l *leaser) (a *Agent, j *job, s *sender) {
	t.Helper()
	cfg := Default()
	cfg.Dir = t.TempDir()
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s = &sender{up: l, hold: newHold(present), away: new(atomic.Bool), homecoming: (&Agent{}).homecoming, log: slog.New(slog.DiscardHandler)}
	s.hold.acked(present(), l.term)
	return a, &job{stop: make(chan struct{})}, s
}

// TestNoRequestWithoutLease sees the last request before two thirds of a term in which the archive was away, and requests again when it
// has renewed.
func TestNoRequestWithoutLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const term = 15 * time.Minute
		l := &leaser{term: term}
		l.away.Store(true)
		a, j, s := leased(t, l)
		start := time.Now()
		time.AfterFunc(time.Hour, func() { l.away.Store(false) })
		last, n := start, 0
		for ; time.Since(start) < time.Hour+5*time.Minute; time.Sleep(time.Second) {
			if err := a.before(t.Context(), j, s); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(last); d > 2*time.Second && (last.Sub(start) < 2*term/3-2*time.Second || time.Since(start) < time.Hour) {
				t.Errorf("no request between %v and %v", last.Sub(start), time.Since(start))
			}
			if d := time.Since(start); d >= 2*term/3 && d < time.Hour {
				t.Fatalf("a request %v after the archive was last heard of, of a term of %v", d, term)
			}
			last = time.Now()
			n++
		}
		if n < 600 || time.Since(last) > 2*time.Second {
			t.Errorf("%d requests, the last %v ago", n, time.Since(last))
		}
	})
}

// TestFencedLeaseEnds sees the wait for a lease end when the archive says that the task is another peer's, or when told to stop.
func TestFencedLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaser{term: 15 * time.Minute}
		l.away.Store(true)
		a, j, s := leased(t, l)
		time.Sleep(10 * time.Minute)
		time.AfterFunc(time.Hour, func() { l.fence.Store(true); l.away.Store(false) })
		if err := a.before(t.Context(), j, s); !errors.Is(err, errLost) {
			t.Errorf("fenced: %v", err)
		}
		l.away.Store(true)
		l.fence.Store(false)
		a, j, s = leased(t, l)
		time.Sleep(10 * time.Minute)
		time.AfterFunc(time.Minute, func() { close(j.stop) })
		if err := a.before(t.Context(), j, s); err == nil || errors.Is(err, errLost) {
			t.Errorf("told to stop: %v", err)
		}
	})
}

// TestLapsedLeaseEnds sees the wait for a lease that has lapsed end soon, unless an archive of an earlier version lets it run again.
func TestLapsedLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaser{term: 15 * time.Minute}
		l.over.Store(true)
		a, j, s := leased(t, l)
		time.Sleep(10 * time.Minute)
		start := time.Now()
		if err := a.before(t.Context(), j, s); !errors.Is(err, errLapsed) || time.Since(start) > time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		a, j, s = leased(t, l)
		time.Sleep(10 * time.Minute)
		time.AfterFunc(2*time.Second, func() { s.hold.acked(present(), l.term) }) // a chunk is stored
		if err := a.before(t.Context(), j, s); err != nil {
			t.Errorf("revived: %v", err)
		}
	})
}

// TestLapsedLeaseEndsAtOnce has a chunk stored by which the lease does not run again: nothing is waited for. It uses no clock of its own, as TestFencedPut.
func TestLapsedLeaseEndsAtOnce(t *testing.T) {
	l := &leaser{term: time.Minute}
	l.over.Store(true)
	a, j, s := leased(t, l)
	s.hold = newHold(present) // of a claim whose lease had lapsed
	if err := s.Put(t.Context(), nil, false); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := a.before(t.Context(), j, s); !errors.Is(err, errLapsed) || time.Since(start) >= retries.First/2 {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

// TestFencedPut does not use a clock of its own, because all tests share the pool of encoders, which have channels.
func TestFencedPut(t *testing.T) {
	l := &leaser{term: time.Minute}
	l.fence.Store(true)
	_, _, s := leased(t, l)
	if err := s.Put(t.Context(), nil, false); !errors.Is(err, errLost) || !s.hold.stopped() {
		t.Errorf("put: %v", err)
	}
}

// TestOvertaken ends the crawl of an earlier generation before that of a later one begins, and no other.
func TestOvertaken(t *testing.T) {
	a, j, _ := leased(t, &leaser{term: time.Minute})
	j.task.Header = channel.Header{Channel: 7, Gen: 3}
	running := func(key uint64, id channel.ID, gen channel.Gen) (*job, context.Context) {
		ctx, quit := context.WithCancel(t.Context())
		o := &job{key: key, quit: quit, done: make(chan struct{})}
		o.task.Header = channel.Header{Channel: id, Gen: gen}
		a.running[key] = o
		go func() {
			<-ctx.Done()
			close(o.done)
		}()
		return o, ctx
	}
	a.running[1] = j
	old, _ := running(2, 7, 2)
	_, later := running(3, 7, 4)
	_, other := running(4, 8, 1)
	a.running[5] = &job{key: 5, done: make(chan struct{})} // not begun
	if err := a.overtake(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	select {
	case <-old.done:
	default:
		t.Error("the earlier one goes on")
	}
	if later.Err() != nil || other.Err() != nil {
		t.Error("another one was ended")
	}
}
