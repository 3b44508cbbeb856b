package groupcommit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

var errClosed = errors.New("closed")

// gate is a Do that waits until it is let go, so that jobs gather behind it.
type gate struct {
	begun   chan []int
	free    chan error
	written []int // owned by Do
}

func newGate() *gate { return &gate{begun: make(chan []int, 100), free: make(chan error)} }

func (g *gate) do(batch []int) error {
	g.begun <- slices.Clone(batch)
	err := <-g.free
	if err == nil {
		g.written = append(g.written, batch...)
	}
	return err
}

// submit starts a job and returns when it waits.
func submit(t *testing.T, wg *sync.WaitGroup, p *Pipeline[int], n int, want error) {
	wg.Go(func() {
		if err := p.Submit(t.Context(), n); !errors.Is(err, want) {
			t.Errorf("job %d: %v, want %v", n, err, want)
		}
	})
	synctest.Wait()
}

// Jobs that come while a batch is written share the next one, in order and within its bounds.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		p := New(Config[int]{Do: g.do, MaxJobs: 10, Weight: func(n int) int64 { return int64(n) }, MaxWeight: 10, Closed: errClosed})
		var wg sync.WaitGroup
		for _, n := range []int{1, 2, 3, 4, 99, 5} {
			submit(t, &wg, p, n, nil)
		}
		for range 4 {
			g.free <- nil
			synctest.Wait()
		}
		wg.Wait()
		for _, want := range [][]int{{1}, {2, 3, 4}, {99}, {5}} {
			if got := <-g.begun; !slices.Equal(got, want) {
				t.Errorf("batch %v, want %v", got, want)
			}
		}
		if want := []int{1, 2, 3, 4, 99, 5}; !slices.Equal(g.written, want) {
			t.Errorf("written %v", g.written)
		}
	})
}

// Jobs of one call keep their order, more of them than a batch takes, and others come between their batches only.
func TestManyJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		p := New(Config[int]{Do: g.do, MaxJobs: 2, Closed: errClosed})
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := p.Submit(t.Context(), 1, 2, 3, 4, 5); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		submit(t, &wg, p, 6, nil)
		for range 3 {
			g.free <- nil
			synctest.Wait()
		}
		wg.Wait()
		if want := []int{1, 2, 3, 4, 5, 6}; !slices.Equal(g.written, want) || len(g.begun) != 3 {
			t.Errorf("written %v in %d batches", g.written, len(g.begun))
		}
		if err := p.Submit(t.Context()); err != nil || len(g.begun) != 3 {
			t.Errorf("no jobs: %v", err)
		}
	})
}

// After a failure nothing more is written, and everybody who waits is told.
func TestFailureStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, lost := newGate(), errors.New("lost")
		p := New(Config[int]{Do: g.do, MaxJobs: 10, Closed: errClosed})
		var wg sync.WaitGroup
		submit(t, &wg, p, 1, nil) // Do tells its own jobs
		submit(t, &wg, p, 2, lost)
		submit(t, &wg, p, 3, lost)
		g.free <- lost
		wg.Wait()
		if err := p.Submit(t.Context(), 4); !errors.Is(err, lost) {
			t.Errorf("a later job: %v", err)
		}
		if len(g.begun) != 1 || !errors.Is(p.Failed(), lost) {
			t.Errorf("%d batches were tried, failed with %v", len(g.begun), p.Failed())
		}
		p.Fail(errClosed)
		if !errors.Is(p.Failed(), lost) {
			t.Error("the first failure is forgotten")
		}
		p.Close()
	})
}

// A failure that was found elsewhere stops what waits, and lets the batch that is being written end.
func TestFailedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, damaged := newGate(), errors.New("damaged")
		p := New(Config[int]{Do: g.do, MaxJobs: 10, Closed: errClosed})
		var wg sync.WaitGroup
		submit(t, &wg, p, 1, nil)
		submit(t, &wg, p, 2, damaged)
		p.Fail(damaged)
		g.free <- nil
		wg.Wait()
		if !slices.Equal(g.written, []int{1}) {
			t.Errorf("written %v", g.written)
		}
	})
}

// Close finishes what was accepted and refuses the rest. A context ends only the wait for a place.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		p := New(Config[int]{Do: g.do, MaxJobs: 2, Closed: errClosed})
		var wg sync.WaitGroup
		submit(t, &wg, p, 1, nil)
		submit(t, &wg, p, 2, nil)
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if err := p.Submit(ctx, 3); !errors.Is(err, context.Canceled) {
				t.Errorf("a job without a place: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		closed := make(chan struct{})
		go func() { p.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("closed while jobs were under way")
		default:
		}
		g.free <- nil
		g.free <- nil
		wg.Wait()
		<-closed
		if err := p.Submit(t.Context(), 4); !errors.Is(err, errClosed) {
			t.Errorf("after Close: %v", err)
		}
		if !slices.Equal(g.written, []int{1, 2}) {
			t.Errorf("written %v", g.written)
		}
	})
}

func BenchmarkSubmit(b *testing.B) {
	p := New(Config[int]{Do: func([]int) error { return nil }, MaxJobs: 1024, Closed: errClosed})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := p.Submit(b.Context(), 1); err != nil {
				b.Error(err)
			}
		}
	})
}
