package ledger_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/warc/memory"
)

// withClock configures a ledger whose clock may be set: it shows so many nanoseconds more than the time.
func withClock(ahead *atomic.Int64) ledger.Config {
	return ledger.Config{Terms: lease.Default(), Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, Log: slog.New(slog.DiscardHandler), InFlight: 1,
		Verify: func(_ time.Time, s channel.Signed) (channel.Header, error) { return channel.ParseHeader(s.Raw) }}
}

// TestClockStepEndsNoLease has the archive's clock go forward by more than a term while a peer crawls: the peer goes on by its own clock, so its lease does not end, and
// nobody else is let in. It ends a full term after that, also if the clock is set back.
func TestClockStepEndsNoLease(t *testing.T) {
	for name, step := range map[string]time.Duration{"forward": 45 * time.Minute, "a little": time.Second / 2, "back": -45 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				cfg := withClock(&ahead)
				l, err := ledger.Open(t.Context(), cfg, memledger.New(), memory.New(memory.Config{}))
				if err != nil {
					t.Fatal(err)
				}
				task, raw := taskOfSeven(1)
				if err := l.Deposit(t.Context(), task, raw); err != nil {
					t.Fatal(err)
				}
				if c, err := l.Claim(t.Context(), "a", task); err != nil || c.Status != lease.Granted {
					t.Fatalf("%v, %v", c.Status, err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- l.Run(ctx) }()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				ahead.Store(int64(step))
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if n := l.Figures().Leases; n != 1 {
					t.Errorf("%d leases run, the holder of one goes on", n)
				}
				time.Sleep(cfg.Terms.Term)
				synctest.Wait()
				if n := l.Figures().Leases; n != 0 {
					t.Errorf("%d leases run though their holder has not been heard of for a term", n)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestClockStepUnnoticed has the clock go forward behind the back of who ends leases, as where a claim was made just before a clock that was behind is set right, and that is still busy. The
// lease does not end, no other peer is let in, and its holder is told of a full term.
func TestClockStepUnnoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		cfg := withClock(&ahead)
		l, err := ledger.Open(t.Context(), cfg, memledger.New(), memory.New(memory.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		first, raw := taskOfSeven(1)
		second, _ := taskOfSeven(2)
		for _, task := range []channel.Signed{first, second} {
			if err := l.Deposit(t.Context(), task, raw); err != nil {
				t.Fatal(err)
			}
		}
		if c, err := l.Claim(t.Context(), "a", first); err != nil || c.Status != lease.Granted {
			t.Fatalf("%v, %v", c.Status, err)
		}
		time.Sleep(time.Second)
		ahead.Store(int64(2 * cfg.Terms.Term))
		if c, err := l.Claim(t.Context(), "b", second); err != nil || c.Status != lease.Held {
			t.Errorf("another peer's claim: %v, %v", c.Status, err)
		}
		ahead.Store(int64(4 * cfg.Terms.Term))
		if err := l.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := l.Figures().Leases; n != 1 {
			t.Errorf("%d leases run, the holder of one goes on", n)
		}
		ahead.Store(int64(6 * cfg.Terms.Term))
		if r, err := l.Renew(t.Context(), "a", first); err != nil || r.Status != lease.Granted || r.Left != cfg.Terms.Term {
			t.Errorf("the holder asks what is left: %v, %v, %v", r.Status, r.Left, err)
		}
		time.Sleep(cfg.Terms.Term)
		if err := l.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := l.Figures().Leases; n != 0 {
			t.Errorf("%d leases run a term after the last step", n)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestClockSetBackWhileItRuns has the clock be set back by more than the time since a claim was read from the store. A peer that goes on as fast as it may is not refused.
func TestClockSetBackWhileItRuns(t *testing.T) {
	var ahead atomic.Int64
	cfg, began, passed := withClock(&ahead), time.Now(), time.Duration(0)
	cfg.Own = func() time.Time { return began.Add(passed) }
	cfg.Clock = func() time.Time { return cfg.Own().Add(time.Duration(ahead.Load())) }
	ahead.Store(int64(20 * time.Minute))
	records, segments := memledger.New(), memory.New(memory.Config{})
	l, err := ledger.Open(t.Context(), cfg, records, segments)
	if err != nil {
		t.Fatal(err)
	}
	task, raw := taskOfSeven(1)
	h, err := channel.ParseHeader(task.Raw)
	if err != nil {
		t.Fatal(err)
	}
	h.Gap = time.Second
	task.Raw = h.Marshal()
	if err := l.Deposit(t.Context(), task, raw); err != nil {
		t.Fatal(err)
	}
	if c, err := l.Claim(t.Context(), "a", task); err != nil || c.Status != lease.Granted {
		t.Fatalf("%v, %v", c.Status, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	records.Reopen()
	if l, err = ledger.Open(t.Context(), cfg, records, segments); err != nil {
		t.Fatal(err)
	}
	passed = 21*time.Minute + 9*time.Second
	ahead.Store(0)

	var b channel.ChunkBody
	for n := range 21 * 60 {
		b.Pages = append(b.Pages, channel.Page{URL: fmt.Sprint("http://a.example/", n), Status: 200, Change: channel.New, Fetched: cfg.Clock()})
	}
	body, err := channel.CompressBody(b.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := l.PutChunk(t.Context(), "a", channel.Chunk{Channel: 7, Gen: 1, Seq: 1, Body: body}, noPages{}); err != nil || r.Status != lease.Stored {
		t.Errorf("%v, %v", r.Status, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// noPages keeps nothing of a chunk's pages.
type noPages struct{}

func (noPages) Take(context.Context, ledger.PageSet) (*ledger.Job, ledger.Retold, func(), error) {
	return new(ledger.Job), ledger.Retold{}, func() {}, nil
}
