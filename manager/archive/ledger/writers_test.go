package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel/lease"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc/memory"
)

// many is a store in memory with more writers, which are slow.
type many struct {
	*memory.Store
	more []*slow
}

func (m *many) Another() segment.Writer {
	w := &slow{id: uint32(100 + len(m.more)), free: make(chan error)}
	m.more = append(m.more, w)
	return w
}

// slow is a writer whose Sync waits to be let go. It keeps no records.
type slow struct {
	id      uint32
	free    chan error
	length  uint64
	pending uint64
	steps   []string
	sealed  bool
}

func (w *slow) Append(raw []byte, ends []int) (at []segment.Location, err error) {
	for range ends {
		at = append(at, segment.Location{Segment: w.id, Offset: w.length + w.pending, Length: uint32(len(raw) / len(ends))})
	}
	w.pending += uint64(len(raw))
	return at, nil
}

func (w *slow) Sync() ([]segment.Info, error) {
	if w.pending > 0 {
		if err := <-w.free; err != nil {
			return nil, err
		}
	}
	return []segment.Info{{ID: w.id, Name: fmt.Sprint(w.id), Length: w.length + w.pending, Sealed: w.sealed}}, nil
}

func (w *slow) Commit() {
	w.length, w.pending, w.steps = w.length+w.pending, 0, append(w.steps, "commit")
}
func (w *slow) Rollback() error { w.pending, w.steps = 0, append(w.steps, "rollback"); return nil }
func (w *slow) Seal() error     { w.sealed = true; return nil }

// TestWriters has several batches with records under way: each ends by itself, in any order, and who fails takes back its own alone. A seal waits for
// all of them.
func TestWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.linger = 100 * time.Millisecond
		store := &many{Store: b.segments}
		b.hold = make(chan struct{}) // of the store's own writer
		b.records.Reopen()
		var err error
		b.ledger, err = ledger.Open(context.Background(), ledger.Config{
			Terms: lease.Default(), Clock: func() time.Time { return b.now }, Log: slog.New(slog.DiscardHandler), InFlight: 1 << 20, Linger: b.linger,
		}, b.records, store)
		if err != nil || len(store.more) < 2 {
			t.Fatal(len(store.more), err)
		}
		var wg sync.WaitGroup
		ended := make(chan int, 10)
		var outcome [10]error
		commit := func(n int) {
			j := b.job(fmt.Sprint(n))
			wg.Go(func() { outcome[n] = b.ledger.Commit(j); ended <- n })
			time.Sleep(time.Second)
		}
		all := len(store.more) + 1
		for n := range all + 1 { // one more than there are writers
			commit(n)
		}
		if len(ended) > 0 {
			t.Fatal("a job did not wait for its object")
		}
		last, broken := store.more[len(store.more)-1], errors.New("broken") // the last writer was taken first
		last.free <- broken
		if n := <-ended; n != 0 || !errors.Is(outcome[0], ledger.ErrStorage) || !slices.Equal(last.steps, []string{"rollback"}) {
			t.Errorf("job %d: %v; writer %v", n, outcome[n], last.steps)
		}
		synctest.Wait() // the job that waited has the writer
		close(b.hold)   // the first writer was taken last
		if n := <-ended; n != all-1 || outcome[n] != nil {
			t.Errorf("job %d: %v", n, outcome[n])
		}
		sealed := false
		wg.Go(func() {
			if err := b.ledger.Seal(); err != nil {
				t.Error(err)
			}
			sealed = true
		})
		for _, w := range store.more {
			synctest.Wait()
			if sealed || w.sealed {
				t.Error("sealed while a batch was written")
			}
			w.free <- nil
		}
		wg.Wait()
		infos, err := b.ledger.Segments(t.Context())
		if err != nil || len(infos) != all {
			t.Fatal(infos, err)
		}
		for _, s := range infos {
			if !s.Sealed {
				t.Errorf("segment %d is not sealed", s.ID)
			}
		}
		if err := b.ledger.Close(); err != nil {
			t.Error(err)
		}
	})
}
