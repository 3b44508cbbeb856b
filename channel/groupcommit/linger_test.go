package groupcommit

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A batch waits for others until it is full, or old enough; one of jobs that weigh nothing does not wait.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type batch struct {
			jobs  []int
			after time.Duration
		}
		var written []batch
		began := time.Now()
		p := New(Config[int]{
			Do: func(jobs []int) error {
				written = append(written, batch{slices.Clone(jobs), time.Since(began)})
				return nil
			},
			MaxJobs: 10, Weight: func(n int) int64 { return int64(n) }, MaxWeight: 10, Linger: 100 * time.Millisecond, Closed: errClosed,
		})
		var wg sync.WaitGroup
		submit(t, &wg, p, 0, nil) // weighs nothing
		submit(t, &wg, p, 1, nil)
		time.Sleep(60 * time.Millisecond)
		submit(t, &wg, p, 2, nil)
		time.Sleep(60 * time.Millisecond) // the first two are gone
		submit(t, &wg, p, 4, nil)
		time.Sleep(10 * time.Millisecond)
		submit(t, &wg, p, 6, nil) // it is full
		wg.Wait()
		want := []batch{{[]int{0}, 0}, {[]int{1, 2}, 100 * time.Millisecond}, {[]int{4, 6}, 130 * time.Millisecond}}
		if !slices.EqualFunc(written, want, func(a, b batch) bool { return slices.Equal(a.jobs, b.jobs) && a.after == b.after }) {
			t.Errorf("written %v, want %v", written, want)
		}
	})
}

// What a job has waited for the batch before counts.
func TestLingerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var after []time.Duration
		began := time.Now()
		p := New(Config[int]{
			Do: func([]int) error {
				after = append(after, time.Since(began))
				time.Sleep(80 * time.Millisecond)
				return nil
			},
			MaxJobs: 10, Weight: func(n int) int64 { return int64(n) }, MaxWeight: 10, Linger: 100 * time.Millisecond, Closed: errClosed,
		})
		var wg sync.WaitGroup
		submit(t, &wg, p, 10, nil)
		submit(t, &wg, p, 1, nil)
		wg.Wait()
		if want := []time.Duration{0, 100 * time.Millisecond}; !slices.Equal(after, want) {
			t.Errorf("batches after %v, want %v", after, want)
		}
	})
}

// Close does not wait out the time.
func TestLingerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config[int]{Do: func([]int) error { return nil }, MaxJobs: 10, Weight: func(n int) int64 { return int64(n) }, MaxWeight: 10, Linger: time.Hour, Closed: errClosed})
		var wg sync.WaitGroup
		submit(t, &wg, p, 1, nil)
		began := time.Now()
		p.Close()
		wg.Wait()
		if d := time.Since(began); d > 0 {
			t.Errorf("it waited for %v", d)
		}
	})
}

// Several batches are written at a time, as many as Width says, and Close waits for all of them.
func TestWidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		free := map[int]chan error{}
		for n := range 4 {
			free[n] = make(chan error)
		}
		p := New(Config[int]{Do: func(batch []int) error {
			g.begun <- slices.Clone(batch)
			return <-free[batch[0]]
		}, MaxJobs: 10, Width: 2, Closed: errClosed})
		var wg sync.WaitGroup
		for n := range 4 { // 2 and 3 gather behind two batches
			submit(t, &wg, p, n, nil)
		}
		for _, want := range [][]int{{0}, {1}} {
			if got := <-g.begun; !slices.Equal(got, want) {
				t.Errorf("batch %v, want %v", got, want)
			}
		}
		if len(g.begun) > 0 {
			t.Fatal("a third batch is being written")
		}
		free[1] <- nil // the later one ends first, and makes room
		synctest.Wait()
		if got := <-g.begun; !slices.Equal(got, []int{2, 3}) {
			t.Errorf("batch %v, want 2 and 3", got)
		}
		closed := make(chan struct{})
		go func() { p.Close(); close(closed) }()
		for _, n := range []int{2, 0} {
			synctest.Wait()
			select {
			case <-closed:
				t.Error("closed while a batch was written")
			default:
			}
			free[n] <- nil
		}
		wg.Wait()
		<-closed
	})
}

// A batch that fails beside another has all that wait told, also who was to lead the next one; the other ends by itself.
func TestWidthFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("lost")
		free := []chan error{make(chan error), make(chan error)}
		p := New(Config[int]{Do: func(batch []int) error { return <-free[batch[0]-1] }, MaxJobs: 10, Weight: func(n int) int64 { return int64(n) }, MaxWeight: 1,
			Linger: time.Hour, Width: 3, Closed: errClosed})
		var wg sync.WaitGroup
		submit(t, &wg, p, 1, nil)
		submit(t, &wg, p, 2, nil)
		p.cfg.MaxWeight = 10 // the next leader lingers
		submit(t, &wg, p, 3, lost)
		free[0] <- lost
		synctest.Wait()
		free[1] <- nil
		wg.Wait()
		if err := p.Submit(t.Context(), 4); !errors.Is(err, lost) {
			t.Errorf("a later job: %v", err)
		}
		p.Close()
	})
}
