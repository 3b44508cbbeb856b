package recrawl

import "math/rand/v2"

// sequencer is a queue, or a composition of queues, from which the scheduler takes, as in section 3 of Edwards, McCurley, Tomlin, "An Adaptive Model
// for Optimizing Performance of an Incremental Web Crawler" (WWW 2001).
type sequencer interface {
	next() (readyItem, bool) // takes one out; false: none may be taken now
}

// ordered takes from known and new channels whichever has the better entry: the strategy's order alone.
type ordered struct{ known, new *ready }

func (o ordered) next() (readyItem, bool) {
	if o.new.waits() && (!o.known.waits() || o.new.heap[0] < o.known.heap[0]) {
		return o.new.next()
	}
	return o.known.next()
}

// mix takes a new channel with probability share, else a known one, and from the other side if that one has none.
type mix struct {
	known, new *ready
	share      float64
	rng        *rand.Rand

	keep, keepNew bool // the next one comes from the side that the last one came from, without a draw
}

func (m *mix) next() (readyItem, bool) {
	isNew := m.keepNew
	if !m.keep {
		isNew = m.rng.Float64() < m.share
	}
	m.keep = false
	first, then := m.known, m.new
	if isNew {
		first, then = then, first
	}
	if v, ok := first.next(); ok {
		return v, true
	}
	return then.next()
}

// again says that the entry last taken came to nothing: the next one is drawn in its stead, from its side, so that shares hold of what was of use.
func (m *mix) again(isNew bool) { m.keep, m.keepNew = true, isNew }
