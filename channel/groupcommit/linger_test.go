package groupcommit

import (
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
