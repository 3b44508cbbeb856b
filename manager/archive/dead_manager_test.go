package archive

import (
	"context"
	"testing"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/memledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc/memory"
)

// TestPurgeOfADeadManager has a manager die at each step of a purge. Another one leaves the purge alone as long as that one may be at it, and goes on with it when
// it is known to be gone.
func TestPurgeOfADeadManager(t *testing.T) {
	began, halfDone := 0, 0
	for step, done := 1, false; !done; step++ {
		records, segments := memledger.New(), memory.New(memory.Config{})
		cfg, cl := testConfig("memory"), &clock{now: time.Now().Truncate(time.Microsecond)}
		cfg.AccountOf, cfg.Clock = nil, cl.Now
		told := make(chan []channel.ID, 1)
		cfg.OnWithdrawn = func(ids []channel.ID) { told <- ids }
		one, two := &besides{Store: records, name: "one"}, &besides{Store: records, name: "two"}
		dies, lives := one.open(t, cfg, segments), two.open(t, cfg, segments)
		forgeries(t, dies, cl)

		writes := 0
		one.fails, one.failure = func() bool { writes++; return writes > step }, ledger.ErrReplaced
		_, err := dies.Withdraw(t.Context(), "mallory")
		done = err == nil
		w := new(pb.Withdrawal)
		two.read(t, []byte{schema.Withdrawal}, w)
		if len(w.Deliverers) > 0 {
			began++
			if w.Pages > 0 {
				halfDone++
			}
			if idle, err := lives.Ledger.Others.Idle(t.Context()); idle || err != nil {
				t.Errorf("step %d: beside a manager that may be at it, it may go on: %t, %v", step, idle, err)
			}
			two.gone = []string{"one"}
			if idle, err := lives.Ledger.Others.Idle(t.Context()); !idle || err != nil {
				t.Errorf("step %d: when that one is gone, it may go on: %t, %v", step, idle, err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); _ = lives.Run(ctx) }()
			select {
			case ids := <-told:
				if len(ids) != 1 || ids[0] != 1 {
					t.Errorf("step %d: it took back pages of the channels %v", step, ids)
				}
			case <-ended:
				t.Fatalf("step %d: it ended", step)
			}
			stop()
			<-ended
			checkWithdrawn(t, lives)
		}
		_ = dies.Close() // it is dead
		if err := lives.Close(); err != nil {
			t.Error(err)
		}
	}
	if began < 3 || halfDone < 1 {
		t.Errorf("it died in %d steps of the purge, %d of them after pages were taken back", began, halfDone)
	}
}
