package manager

import (
	"math"
	"time"

	"shoal/recrawl"
)

const (
	historyEvery  = 2 * time.Second
	historyPoints = 600
	freshSample   = 4096 // channels looked at for the freshness estimate
	rateWindow    = time.Minute
)

// Point is one sample of the history.
type Point struct {
	At         time.Time
	UpdatesMin float64
	PagesMin   float64
	RefusedMin float64
	Out        int
	Peers      int
	Freshness  float64
	Intervals  []time.Duration
}

// sampleHistory takes a point of the plots, and the freshness estimate with it.
func (st *status) sampleHistory(now time.Time) {
	h := &st.history
	h.sampled, h.holds = now, Holds{}
	h.fresh = st.freshness(now, &h.holds)
	up, pg, ref := h.rates.sample(now, st.tally.updates, st.tally.pages, st.counts().Refused)
	h.add(Point{At: now, UpdatesMin: up, PagesMin: pg, RefusedMin: ref, Out: st.machine.Out(), Peers: st.near.peers(), Freshness: h.fresh, Intervals: st.intervals()})
}

// history is what the plots show. Owned by the loop.
type history struct {
	points  []Point
	rates   rates
	sampled time.Time
	fresh   float64
	holds   Holds
	kept    time.Time // when the events were written last
}

// add takes a point. Where there are many, what is old loses half of its points, and all keeps its span.
func (h *history) add(p Point) {
	h.points = append(h.points, p)
	if len(h.points) <= historyPoints {
		return
	}
	kept := h.points[:0]
	for i, p := range h.points {
		if i%2 == 0 || i > len(h.points)-historyPoints/4 {
			kept = append(kept, p)
		}
	}
	h.points = kept
}

// freshness is the expected share of channels whose stored copy is still current, from the learnt change rates: the mean of e^(-rate*age). Channels that are
// not crawled, as an operator has paused them or they were given up, do not count. It counts what holds the others back.
func (st *status) freshness(now time.Time, holds *Holds) float64 {
	n := st.table.Len()
	if n == 0 {
		return 0
	}
	step := max(n/freshSample, 1)
	sum, seen := 0.0, 0
	tick := st.clock.At(now)
	for s := 0; s < n; s += step {
		if !st.table.Used(recrawl.Slot(s)) {
			continue
		}
		f := st.sched.Facts(recrawl.Slot(s))
		if f.Flags&recrawl.Paused != 0 {
			continue
		}
		seen++
		holds.count(st, now, tick, recrawl.Slot(s))
		if f.Updated > 0 {
			sum += math.Exp(-f.Est.Rate() * float64(max(tick-f.Updated, 0)))
		}
	}
	holds.scale(step)
	holds.limited(st.sched.Limits(), st.clock.Step)
	if seen == 0 {
		return 0
	}
	return sum / float64(seen)
}

// rates turns counters into what happened in the last minute.
type rates struct {
	at                      []time.Time
	updates, pages, refused []int64
}

// sample adds the counters of now and answers with what the last minute brought.
func (r *rates) sample(now time.Time, updates, pages, refused int64) (up, pg, ref float64) {
	r.at = append(r.at, now)
	r.updates, r.pages, r.refused = append(r.updates, updates), append(r.pages, pages), append(r.refused, refused)
	for len(r.at) > 2 && now.Sub(r.at[1]) >= rateWindow {
		r.at, r.updates, r.pages, r.refused = r.at[1:], r.updates[1:], r.pages[1:], r.refused[1:]
	}
	return r.last(now, updates, pages, refused)
}

func (r *rates) last(now time.Time, updates, pages, refused int64) (up, pg, ref float64) {
	if len(r.at) == 0 {
		return 0, 0, 0
	}
	minutes := now.Sub(r.at[0]).Minutes()
	if minutes <= 0 {
		return 0, 0, 0
	}
	return float64(updates-r.updates[0]) / minutes, float64(pages-r.pages[0]) / minutes, float64(refused-r.refused[0]) / minutes
}
