// Package sim holds the common parts of experiments: an event queue in virtual time, churn, and positions of hosts
// and peers, taken from a published latency embedding or drawn from a seed. The experiments themselves are in
// cmd/shoal-sim. They run the product's own pure packages.
//
// To test code that reads the clock, use testing/synctest instead. The same seed gives the same result to the last
// digit: nothing here depends on map order, goroutines or time of day.
package sim

import (
	"math/rand/v2"
)

// Rand returns the random source of one purpose in one run. Draws for one purpose do not change what another one
// sees.
func Rand(seed uint64, purpose string) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(purpose) {
		h = (h ^ uint64(purpose[i])) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

// Queue orders events by time. Events of the same time keep the order in which they were pushed.
type Queue[T any] struct {
	heap []event[T]
	seq  uint64
}

type event[T any] struct {
	at   int64
	seq  uint64
	what T
}

func (e *event[T]) before(o *event[T]) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// Len returns the number of queued events.
func (q *Queue[T]) Len() int { return len(q.heap) }

// Push adds an event.
func (q *Queue[T]) Push(at int64, what T) {
	q.heap = append(q.heap, event[T]{at, q.seq, what})
	q.seq++
	h, i := q.heap, len(q.heap)-1
	for i > 0 {
		p := (i - 1) / 2
		if !h[i].before(&h[p]) {
			break
		}
		h[i], h[p] = h[p], h[i]
		i = p
	}
}

// Next returns the time of the first event, or false if there is none.
func (q *Queue[T]) Next() (at int64, ok bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

// Pop removes the first event and returns it. The queue must not be empty.
func (q *Queue[T]) Pop() (at int64, what T) {
	h := q.heap
	at, what = h[0].at, h[0].what
	last := len(h) - 1
	h[0] = h[last]
	var zero event[T]
	h[last] = zero
	q.heap = h[:last]
	h = q.heap
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1].before(&h[c]) {
			c++
		}
		if !h[c].before(&h[i]) {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	return at, what
}

// Churn describes how peers come and go.
type Churn struct {
	Life, LifeSpread float64 // mean and standard deviation of a peer's life, in the experiment's unit of time
	Gap, GapSpread   float64 // of the time until it comes back
	Polite           float64 // share of peers that leave with notice
}

// PaperChurn is the churn of the recrawl paper, in minutes.
func PaperChurn() Churn {
	return Churn{Life: 1000, LifeSpread: 200, Gap: 600, GapSpread: 200, Polite: 1. / 3}
}

// Lives draws the length of a life, at least 1.
func (c Churn) Lives(rng *rand.Rand) float64 { return max(1, c.Life+c.LifeSpread*rng.NormFloat64()) }

// Stays draws the length of an absence, at least 1.
func (c Churn) Stays(rng *rand.Rand) float64 { return max(1, c.Gap+c.GapSpread*rng.NormFloat64()) }

// Leaves draws whether a peer leaves with notice.
func (c Churn) Leaves(rng *rand.Rand) (polite bool) { return rng.Float64() < c.Polite }
