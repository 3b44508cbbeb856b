package ledger_test

import (
	"context"
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

// TestClockStepEndsNoLease has the archive's clock go forward by more than a term while a peer crawls: the peer goes on by its own clock, so its lease does not end, and
// nobody else is let in. It ends a full term after that, also if the clock is set back.
func TestClockStepEndsNoLease(t *testing.T) {
	for name, step := range map[string]time.Duration{"forward": 45 * time.Minute, "a little": time.Second / 2, "back": -45 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				terms := lease.Default()
				cfg := ledger.Config{Terms: terms, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, Log: slog.New(slog.DiscardHandler), InFlight: 1,
					Verify: func(_ time.Time, s channel.Signed) (channel.Header, error) { return channel.ParseHeader(s.Raw) }}
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
				time.Sleep(terms.Term)
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
