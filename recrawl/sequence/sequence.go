// Package sequence composes the queues from which work is taken, as section 3 of Edwards, McCurley, Tomlin, "An Adaptive Model for Optimizing
// Performance of an Incremental Web Crawler" (WWW 2001) describes: an immediate queue before everything else, under it a choice between new and
// old by ratios that a model sets, under those an active list of sites taken round robin. Every piece is a Sequencer and so is what it is made of; pieces can be
// exchanged while running.
//
// It is pure and owned by one goroutine. It is not for ranking (package recrawl decides who is due) and holds no more than it was given: every queue
// has a limit, and says no.
package sequence

import "math/rand/v2"

// Sequencer is one queue or a composition of queues.
type Sequencer[T any] interface {
	Backlog() int    // how many wait
	Next() (T, bool) // takes one out; false: none may be taken now
	Load(v T) bool   // takes one in; false: it is full
	Flush() []T      // gives back everything, in order
}

// Queue is first in, first out.
type Queue[T any] struct {
	limit int
	q     []T
	head  int
}

// NewQueue makes a queue of at most limit entries.
func NewQueue[T any](limit int) *Queue[T] { return &Queue[T]{limit: limit} }

// Backlog implements Sequencer.
func (q *Queue[T]) Backlog() int { return len(q.q) - q.head }

// Next implements Sequencer.
func (q *Queue[T]) Next() (v T, ok bool) {
	if q.head == len(q.q) {
		return v, false
	}
	v = q.q[q.head]
	var zero T
	q.q[q.head] = zero
	if q.head++; q.head > len(q.q)/2 {
		q.q = q.q[:copy(q.q, q.q[q.head:])]
		q.head = 0
	}
	return v, true
}

// Load implements Sequencer.
func (q *Queue[T]) Load(v T) bool {
	if q.Backlog() >= q.limit {
		return false
	}
	q.q = append(q.q, v)
	return true
}

// Flush implements Sequencer.
func (q *Queue[T]) Flush() []T {
	all := append([]T(nil), q.q[q.head:]...)
	q.q, q.head = nil, 0
	return all
}

// Before takes from First as long as it has any, and then from Then, which Load fills too. The owner of First loads
// it.
type Before[T any] struct{ First, Then Sequencer[T] }

// Backlog implements Sequencer.
func (b *Before[T]) Backlog() int { return b.First.Backlog() + b.Then.Backlog() }

// Next implements Sequencer.
func (b *Before[T]) Next() (T, bool) {
	if v, ok := b.First.Next(); ok {
		return v, true
	}
	return b.Then.Next()
}

// Load implements Sequencer.
func (b *Before[T]) Load(v T) bool { return b.Then.Load(v) }

// Flush implements Sequencer.
func (b *Before[T]) Flush() []T { return append(b.First.Flush(), b.Then.Flush()...) }

// Mix takes from New with probability Ratio(), else from Old, and from the other one if that has none. IsNew says where Load puts an entry.
type Mix[T any] struct {
	New, Old Sequencer[T]
	Ratio    func() float64
	IsNew    func(T) bool
	Rand     *rand.Rand

	keep, keepNew bool // the next one comes from the side that the last one came from, without a draw
}

// Backlog implements Sequencer.
func (m *Mix[T]) Backlog() int { return m.New.Backlog() + m.Old.Backlog() }

// Next implements Sequencer.
func (m *Mix[T]) Next() (T, bool) {
	isNew := m.keepNew
	if !m.keep {
		isNew = m.Rand.Float64() < m.Ratio()
	}
	m.keep = false
	first, then := m.Old, m.New
	if isNew {
		first, then = then, first
	}
	if v, ok := first.Next(); ok {
		return v, true
	}
	return then.Next()
}

// Again says that the entry last taken came to nothing: the next one is drawn for in its stead, from its side, so that shares hold of what was of use.
func (m *Mix[T]) Again(isNew bool) { m.keep, m.keepNew = true, isNew }

// Load implements Sequencer.
func (m *Mix[T]) Load(v T) bool {
	if m.IsNew(v) {
		return m.New.Load(v)
	}
	return m.Old.Load(v)
}

// Flush implements Sequencer.
func (m *Mix[T]) Flush() []T { return append(m.New.Flush(), m.Old.Flush()...) }

// MaxActive is the paper's number of sites that are crawled at a time.
const MaxActive = 1000

// Sites keeps a queue for each site and takes from at most active of them in turn, one entry each, so that no site is taken from twice before the others. Sites beyond
// wait in order of arrival until an active one runs empty. Polite says whether a site may be taken from now; nil: always.
type Sites[T any] struct {
	SiteOf func(T) string
	Polite func(site string) bool
	Active int // active sites; 0: MaxActive
	Limit  int // entries in all

	queues  map[string][]T
	ring    []string // active sites, the next one first
	waiting []string
	n       int
}

// Backlog implements Sequencer.
func (s *Sites[T]) Backlog() int { return s.n }

// Load implements Sequencer.
func (s *Sites[T]) Load(v T) bool {
	if s.n >= s.Limit {
		return false
	}
	if s.queues == nil {
		s.queues = map[string][]T{}
	}
	site := s.SiteOf(v)
	if _, known := s.queues[site]; !known {
		if len(s.ring) < s.active() {
			s.ring = append(s.ring, site)
		} else {
			s.waiting = append(s.waiting, site)
		}
	}
	s.queues[site] = append(s.queues[site], v)
	s.n++
	return true
}

func (s *Sites[T]) active() int {
	if s.Active > 0 {
		return s.Active
	}
	return MaxActive
}

// Next implements Sequencer.
func (s *Sites[T]) Next() (v T, ok bool) {
	for range s.ring {
		site := s.ring[0]
		s.ring = s.ring[1:]
		if s.Polite != nil && !s.Polite(site) {
			s.ring = append(s.ring, site)
			continue
		}
		q := s.queues[site]
		v, q = q[0], q[1:]
		s.n--
		if len(q) > 0 {
			s.queues[site] = q
			s.ring = append(s.ring, site)
			return v, true
		}
		delete(s.queues, site)
		if len(s.waiting) > 0 {
			s.ring = append(s.ring, s.waiting[0])
			s.waiting = s.waiting[1:]
		}
		return v, true
	}
	return v, false
}

// Flush implements Sequencer: site by site.
func (s *Sites[T]) Flush() []T {
	var all []T
	for _, site := range append(s.ring, s.waiting...) {
		all = append(all, s.queues[site]...)
	}
	s.queues, s.ring, s.waiting, s.n = nil, nil, nil, 0
	return all
}

// Swap puts what waits in one sequencer into another, in order, and returns what the other had no room for.
func Swap[T any](from, to Sequencer[T]) (left []T) {
	for _, v := range from.Flush() {
		if !to.Load(v) {
			left = append(left, v)
		}
	}
	return left
}
