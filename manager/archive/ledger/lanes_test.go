package ledger_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/manager/archive/ledger"
)

// far is a bench whose stores are far away.
func far(t *testing.T) *bench {
	b := newBench(t)
	b.linger = 100 * time.Millisecond
	b.restart(false)
	b.steps = nil
	return b
}

// TestLanes has a job without records go by while a segment is being written.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := far(t)
		b.hold = make(chan struct{})
		var wg sync.WaitGroup
		var heavy error
		done := false
		wg.Go(func() { heavy = b.ledger.Commit(b.job("heavy")); done = true })
		time.Sleep(time.Second) // it lingers no more, and waits for the sync
		began := time.Now()
		if err := b.ledger.Change(ledger.Change{Key: []byte("light"), Value: []byte{1}}); err != nil || time.Since(began) > 0 {
			t.Errorf("a job without records took %v, %v", time.Since(began), err)
		}
		if done {
			t.Error("the job with records did not wait for the sync")
		}
		close(b.hold)
		wg.Wait()
		if heavy != nil {
			t.Error(heavy)
		}
		b.wants("heavy")
	})
}

// TestReplaced has another manager work on the archive: nothing more is stored, and a new start would not help.
func TestReplaced(t *testing.T) {
	b := newBench(t)
	b.fail["commit"] = fmt.Errorf("%w: test", ledger.ErrReplaced)
	for range 2 {
		if err := b.ledger.Commit(b.job("x")); !errors.Is(err, ledger.ErrReplaced) {
			t.Errorf("a commit: %v", err)
		}
	}
	if b.ledger.Broken() || b.ledger.Trouble() == "" {
		t.Errorf("broken %v, trouble %q", b.ledger.Broken(), b.ledger.Trouble())
	}
}

// TestAway has the database away: records are taken back, callers are told, and the next commit goes on in the same ledger.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := far(t)
		for _, away := range []bool{false, true, true, false} {
			if away {
				b.fail["commit"] = fmt.Errorf("%w: test", ledger.ErrAway)
			}
			err := b.ledger.Commit(b.job(fmt.Sprintf("%d", b.n)))
			if away != (err != nil) || away && (!errors.Is(err, ledger.ErrStorage) || !errors.Is(err, ledger.ErrAway)) {
				t.Errorf("away %v: %v", away, err)
			}
			if b.ledger.Broken() {
				t.Fatal("the ledger does not go on")
			}
		}
		b.wants("0 3")
		b.fail["commit"] = errors.New("unknown")
		if err := b.ledger.Change(ledger.Change{Key: []byte("light"), Value: []byte{1}}); err == nil {
			t.Error("a commit of unknown outcome is no error")
		}
		if err := b.ledger.Commit(b.job("after")); err == nil || !b.ledger.Broken() {
			t.Errorf("after an unknown outcome in the other lane: %v", err)
		}
	})
}
