package manager

import (
	"time"

	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// Holds says what holds channels back whose copy is missing or probably stale: how many there are of each kind. Of very many channels it is an estimate from
// some of them. Channels that are paused or given up do not count.
type Holds struct {
	Stale  int // all that are missing or probably stale; of these:
	Under  int // have a task out
	Lost   int // had a task of which nothing came, and are handed out again in a while
	Soon   int // have not had their minimum interval
	Capped int // are crawled as often as the cap allows
	Denied int // were refused lately, and are asked for again in a while
	Polite int // wait for their host
	Block  int // are on blocked hosts
	Failed int // failed lately, and are tried again in a while
	Strict int // wait for the interval that their strategy keeps to
	Ending int // would not be crawled before the manager ends, as it was told to
	Free   int // wait for a thread
	Halted int // are with a manager that hands nothing out, of which its notices tell

	Early int // are probably fresh, and neither minimum interval nor cap allow a crawl yet: none of Stale

	MinInterval time.Duration // between two tasks of a channel
	Cap         float64       // so many times its change rate a channel is crawled at most; 0: no limit
}

// count adds a channel.
func (h *Holds) count(st *status, now time.Time, tick recrawl.Tick, s recrawl.Slot) {
	kind := st.sched.Hold(tick, s)
	if kind != recrawl.NotStale && kind != recrawl.Early && kind != recrawl.Rests {
		h.Stale++
	}
	switch kind {
	case recrawl.NotStale, recrawl.Rests:
	case recrawl.Early:
		h.Early++
	case recrawl.Under:
		h.Under++
	case recrawl.TooSoon:
		h.Soon++
	case recrawl.AtCap:
		h.Capped++
	case recrawl.Denial:
		h.Denied++
	default:
		h.at(dispatch.HoldupOf(st.machine, now, s), kind == recrawl.Strict)
	}
}

// at adds a channel that the limits allow to be crawled.
func (h *Holds) at(held dispatch.Holdup, strict bool) {
	switch {
	case held == dispatch.Blocking:
		h.Block++
	case held == dispatch.Politeness:
		h.Polite++
	case held == dispatch.Failure:
		h.Failed++
	case held == dispatch.Handing:
		h.Lost++
	case held == dispatch.Ending:
		h.Ending++
	case strict:
		h.Strict++
	default:
		h.Free++
	}
}

// limited notes the limits in force.
func (h *Holds) limited(l recrawl.Limits, tick time.Duration) {
	h.MinInterval, h.Cap = time.Duration(l.Least)*tick, l.Cap
}

// numbers are all numbers of channels.
func (h *Holds) numbers() []*int {
	return []*int{&h.Stale, &h.Under, &h.Soon, &h.Capped, &h.Denied, &h.Polite, &h.Block, &h.Failed, &h.Lost, &h.Strict, &h.Ending, &h.Free, &h.Halted, &h.Early}
}

// scale makes the numbers of a sample those of all channels, of which one in so many was looked at.
func (h *Holds) scale(step int) {
	for _, n := range h.numbers() {
		*n *= step
	}
}

// halted is what holds channels back while nothing is handed out, whatever would do so otherwise.
func (h Holds) halted() Holds {
	return Holds{Stale: h.Stale, Under: h.Under, Halted: max(h.Stale-h.Under, 0), Early: h.Early, MinInterval: h.MinInterval, Cap: h.Cap}
}

// Add adds the channels of another manager, for which the same limits are in force.
func (h *Holds) Add(x Holds) {
	more := x.numbers()
	for i, n := range h.numbers() {
		*n += *more[i]
	}
	if h.MinInterval == 0 { // it has no channels
		h.MinInterval, h.Cap = x.MinInterval, x.Cap
	}
}
