package peer

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"shoal/peer/limit"
)

// clock is a computer's that may sleep: what passes then is seen by the clock since the start only, or by the time of day too.
type clock struct{ boot, wall atomic.Int64 }

func (c *clock) now() moment {
	at := time.Now()
	if w := time.Duration(c.wall.Load()); w != 0 {
		at = at.Round(0).Add(w) // no monotonic reading helps
	}
	return moment{at, time.Hour + time.Duration(c.boot.Load()+time.Now().UnixNano())}
}

func (c *clock) sleep(d time.Duration) { c.boot.Add(int64(d)) }

// TestSleepEndsLease sees no right to fetch after a sleep of more than two thirds of the term, though the process's own clocks stood still,
// and though the time of day was set back meanwhile.
func TestSleepEndsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const term = 30 * time.Minute
		for _, back := range []time.Duration{0, -time.Hour} {
			c := &clock{}
			h := newHold(c.now)
			h.acked(h.clock(), term)
			c.sleep(term/3 - time.Second)
			if !h.may() {
				t.Error("a third of the term has passed, and nothing may be fetched")
			}
			c.wall.Store(int64(back))
			c.sleep(term / 3)
			time.Sleep(2 * time.Second)
			if h.may() {
				t.Errorf("two thirds of the term have passed, the clock was set by %v: fetching goes on", back)
			}
			before := h.clock()
			c.sleep(term)
			h.acked(before, term) // the answer to a question from before the sleep
			if h.may() {
				t.Error("an answer as old as the lease gives it")
			}
			h.acked(h.clock(), term)
			if !h.may() {
				t.Error("renewed, and nothing may be fetched")
			}
		}
	})
}

// TestHoldEndsBefore is whether a pause outlasts what may be fetched under a lease.
func TestHoldEndsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clock{}
		h := newHold(c.now)
		h.acked(h.clock(), 30*time.Minute)
		other := time.Now().Add(-time.Hour) // the archive's clock
		for _, p := range []struct {
			after, pause time.Duration // none: its end is unknown
			ends         bool
		}{{0, 0, false}, {0, 19 * time.Minute, false}, {0, 21 * time.Minute, true}, {15 * time.Minute, 4 * time.Minute, false}, {0, 6 * time.Minute, true}, {0, 0, false}, {6 * time.Minute, 0, true}} {
			c.sleep(p.after)
			other = other.Add(p.after)
			var until time.Time
			if p.pause > 0 {
				until = other.Add(p.pause)
			}
			if got := h.endsBefore(until, other); got != p.ends {
				t.Errorf("%v more gone, a pause of %v: %v", p.after, p.pause, got)
			}
		}
	})
}

// TestNoRequestAfterSleep falls asleep while a connection is made, and while one is used.
func TestNoRequestAfterSleep(t *testing.T) {
	c := &clock{}
	h := newHold(c.now)
	h.acked(h.clock(), time.Minute)
	sleepy, sent := false, make(chan bool, 1)
	dial := h.dial(func(context.Context, string, string) (net.Conn, error) {
		if sleepy {
			c.sleep(time.Hour)
		}
		here, there := net.Pipe()
		go func() {
			n, _ := there.Read(make([]byte, 1))
			sent <- n > 0
			there.Close()
		}()
		return here, nil
	})
	for _, sleepy = range []bool{false, true} {
		conn, err := dial(t.Context(), "tcp", "host.test:80")
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Write([]byte{1})
		conn.Close()
		if sent := <-sent; sent == sleepy || sleepy && !errors.Is(err, errNoLease) {
			t.Errorf("slept: %v; sent: %v, %v", sleepy, sent, err)
		}
	}
	if _, err := dial(t.Context(), "tcp", "host.test:80"); !errors.Is(err, errNoLease) {
		t.Errorf("dialled without a lease: %v", err)
	}
}

// TestNoRequestAfterWaitForTurn has a request wait for its turn under a rate until its lease has run down, or has lapsed.
func TestNoRequestAfterWaitForTurn(t *testing.T) {
	for _, wait := range []time.Duration{50 * time.Minute, 2 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			h := newHold((&clock{}).now)
			meter := limit.NewMeter(nil)
			meter.SetRates(0, 1)
			ours, host := net.Pipe()
			defer host.Close()
			var got atomic.Int64
			go func() {
				for b := make([]byte, 1<<10); ; {
					n, err := host.Read(b)
					got.Add(int64(n))
					if err != nil {
						return
					}
				}
			}()
			h.acked(h.clock(), time.Hour)
			conn, err := h.dial(func(context.Context, string, string) (net.Conn, error) { return meter.Wrap(ours), nil })(t.Context(), "tcp", "host.test:80")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			request := make([]byte, 500)
			_, err = conn.Write(request)
			if synctest.Wait(); err != nil || got.Load() != 500 {
				t.Fatalf("with a lease: %d bytes sent, %v", got.Load(), err)
			}
			meter.Count(0, int(wait/time.Second)<<10) // what else is sent
			_, err = conn.Write(request)
			if synctest.Wait(); !errors.Is(err, errNoLease) || got.Load() != 500 {
				t.Errorf("to wait for %v: %d bytes sent, %v", wait, got.Load()-500, err)
			}
		})
	}
}

func TestWaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clock{}
		ctx, cancel := context.WithCancel(t.Context())
		woken := make(chan time.Duration, 10)
		done := make(chan struct{})
		go func() { defer close(done); waking(ctx, c.now, func(d time.Duration) { woken <- d }) }()
		time.Sleep(10 * time.Minute)
		c.sleep(wakeAfter - time.Second)
		time.Sleep(time.Minute)
		if len(woken) > 0 {
			t.Fatalf("woken without a sleep: %v", <-woken)
		}
		c.sleep(8 * time.Hour)
		time.Sleep(2 * wakeCheck)
		c.wall.Store(int64(3 * time.Hour)) // a system that tells the time of day only
		time.Sleep(2 * wakeCheck)
		cancel()
		<-done
		if len(woken) != 2 {
			t.Fatalf("woken %d times", len(woken))
		}
		if first, second := <-woken, <-woken; first != 8*time.Hour || second != 3*time.Hour {
			t.Errorf("slept %v and %v", first, second)
		}
	})
}

// TestWokenAgent sees an agent make its connections anew after a sleep, and go on taking and crawling.
func TestWokenAgent(t *testing.T) {
	s := open(t, plain(20))
	v := newValve(5)
	a, _ := s.agent(t.TempDir(), v.on)
	first := s.place(0)
	s.until("the crawl is in its middle", v.blocked)
	old := map[network.Conn]bool{}
	for _, c := range a.wire.Host().Network().Conns() {
		old[c] = true
	}
	if len(old) == 0 {
		t.Fatal("no connection")
	}
	a.woke(time.Hour)
	for c := range old {
		if !c.IsClosed() {
			t.Error("an old connection is still used")
		}
	}
	v.open()
	s.until("the report", s.look(first, reported))
	s.until("a new connection", func() bool { return len(a.wire.Host().Network().Conns()) > 0 })
	second := s.place(1)
	s.until("the second report", s.look(second, reported))
}

// TestLapseCutsRequest has a host that does not answer: its request is under way as long as the lease is renewed, and not a moment longer.
func TestLapseCutsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const term = 20 * time.Second
		h := newHold((&clock{}).now)
		h.acked(h.clock(), term)
		pipe, host := net.Pipe()
		defer host.Close()
		ours := &lingering{Conn: pipe}
		c, err := h.dial(func(context.Context, string, string) (net.Conn, error) { return ours, nil })(t.Context(), "tcp", "site.test:80")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			b := make([]byte, 10)
			host.Read(b)
			time.Sleep(term / 2)
			h.acked(h.clock(), term)
		}()
		start := time.Now()
		c.Write([]byte("GET /"))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errNoLease) || time.Since(start) < term || time.Since(start) > term*3/2 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		c.Close()
		if !ours.forgets.Load() {
			t.Error("what the network has not taken of the request is sent after the lease")
		}
		// A connection that is closed in time is not cut.
		h.acked(h.clock(), term)
		again, _ := net.Pipe()
		taken := &lingering{Conn: &quiet{again}}
		c, err = h.dial(func(context.Context, string, string) (net.Conn, error) { return taken, nil })(t.Context(), "tcp", "site.test:80")
		if err != nil {
			t.Fatal(err)
		}
		c.Write(nil)
		c.Close()
		time.Sleep(2 * term)
		if lc := c.(*leasedConn); lc.cut.Load() || lc.timer != nil || taken.forgets.Load() {
			t.Error("cut after its end")
		}
	})
}

// lingering notes that its end was told to forget what is not sent.
type lingering struct {
	net.Conn
	forgets atomic.Bool
}

func (l *lingering) SetLinger(sec int) error {
	l.forgets.Store(sec == 0)
	return nil
}

// quiet takes what is written.
type quiet struct{ net.Conn }

func (q *quiet) Write(b []byte) (int, error) { return len(b), nil }

// TestTendingGoesOnUntilTheLeaseLapses writes in the last third of a lease: no request may be sent, and what only tends the answer that is coming may, until the lease
// lapses.
func TestTendingGoesOnUntilTheLeaseLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHold((&clock{}).now)
		h.acked(h.clock(), time.Hour)
		ours, host := net.Pipe()
		defer host.Close()
		go func() {
			for b := make([]byte, 1); ; {
				if _, err := host.Read(b); err != nil {
					return
				}
			}
		}()
		conn, err := h.dial(func(context.Context, string, string) (net.Conn, error) { return ours, nil })(t.Context(), "tcp", "host.test:443")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, step := range []struct {
			after time.Duration
			tends bool
			goes  bool
		}{{0, false, true}, {50 * time.Minute, false, false}, {0, true, true}, {0, false, false}, {11 * time.Minute, true, false}} {
			time.Sleep(step.after)
			conn.(interface{ Tends(bool) }).Tends(step.tends)
			if _, err := conn.Write([]byte{1}); (err == nil) != step.goes || err != nil && !errors.Is(err, errNoLease) {
				t.Errorf("%v more gone, what is written tends only: %v: %v", step.after, step.tends, err)
			}
		}
	})
}
