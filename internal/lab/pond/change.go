package pond

import (
	"math"
	"slices"
	"time"
)

// Process is how a page changes.
type Process uint8

// The processes. Their parameter is the mean time between changes.
const (
	Never    Process = iota
	Poisson          // exponential gaps
	Pareto           // heavy-tailed gaps (shape 1.5): bursts, then long rests
	Periodic         // a fixed gap
)

// Process returns the change process of a page. "/" is Poisson; a fifth of the other pages never change.
func (w *World) Process(host, page int) Process {
	if w.hosts[host].Interval == 0 {
		return Never
	}
	if page == 0 {
		return Poisson
	}
	switch u := w.unit(saltKind, uint64(host), uint64(page)); {
	case u < .2:
		return Never
	case u < .6:
		return Poisson
	case u < .8:
		return Pareto
	}
	return Periodic
}

// changeWeight is a page's part of its host's changes. The front pages have most of them.
func (w *World) changeWeight(host, page int) float64 {
	if page > 0 && w.unit(saltKind, uint64(host), uint64(page)) < .2 {
		return 0
	}
	return 1 / float64(page+4)
}

// Mean returns the mean time between changes of a page; 0 if it never changes. The rates of a host's pages add up to
// one change per Host.Interval.
func (w *World) Mean(host, page int) time.Duration {
	h := &w.hosts[host]
	wt := w.changeWeight(host, page)
	if wt == 0 || h.Interval == 0 {
		return 0
	}
	return time.Duration(float64(h.Interval) * h.weights / wt)
}

// Version is one content of a page.
type Version struct {
	ID    uint64    // names the version; grows with time
	Text  uint64    // seed of the content; a page may return to its first content, which is 0
	Since time.Time // the whole second from which it shows
}

// blockMeans is the length of a block of a change process, in mean gaps. Each block has a hash of its own, so that
// the version at any moment is computed without walking there from the start.
const blockMeans = 16

// Version returns a page's version at a moment. Versions change at whole seconds only, so that Last-Modified tells
// them apart.
func (w *World) Version(host, page int, at time.Time) Version {
	base := Version{Since: w.cfg.Start}
	mean := w.Mean(host, page).Seconds()
	t := math.Floor(at.Sub(w.cfg.Start).Seconds())
	p := w.Process(host, page)
	if mean == 0 || p == Never || t < 0 {
		return base
	}
	key := w.hash(saltChange, uint64(host), uint64(page))
	var block, k int
	var when float64
	if p == Periodic {
		phase := toUnit(mix(key)) * mean
		k = int(math.Floor((t - phase) / mean))
		if k < 0 {
			return base
		}
		when = phase + float64(k)*mean
	} else {
		block, k, when = lastEvent(p, key, mean, t)
		if block < 0 {
			return base
		}
	}
	v := Version{ID: uint64(block)<<20 | uint64(k+1), Since: w.cfg.Start.Add(time.Duration(math.Ceil(when)) * time.Second)}
	v.Text = v.ID
	// A seventh of the changes return to the first content, but never twice in a row.
	if k > 0 && mix(key^v.ID)%7 == 0 && mix(key^(v.ID-1))%7 != 0 {
		v.Text = 0
	}
	return v
}

// lastEvent returns the last change at or before t: its block, its number in the block, and its time. If there is
// none, block is -1.
func lastEvent(p Process, key uint64, mean, t float64) (block, k int, when float64) {
	span := blockMeans * mean
	var buf [4 * blockMeans]float64
	for b := int(t / span); b >= 0; b-- {
		ev := blockEvents(buf[:0], p, mix(key^uint64(b)), mean, span)
		last := -1
		for i, x := range ev {
			if math.Ceil(float64(b)*span+x) <= t {
				last = i
			}
		}
		if last >= 0 {
			return b, last, float64(b)*span + ev[last]
		}
	}
	return -1, 0, 0
}

// blockEvents draws the changes of one block, in order.
func blockEvents(ev []float64, p Process, key uint64, mean, span float64) []float64 {
	s := stream{key}
	const limit = 4 * blockMeans
	if p == Poisson {
		for x := 0.0; len(ev) < limit; {
			if x += -math.Log(1-s.unit()) * mean; x >= span {
				break
			}
			ev = append(ev, x)
		}
		return ev
	}
	// Pareto gaps of shape a and mean m begin at m(a-1)/a. The first change is placed as though the process had always run.
	const a = 1.5
	least := mean * (a - 1) / a
	for x := s.unit() * mean; x < span && len(ev) < limit; {
		ev = append(ev, x)
		x += least * math.Pow(1-s.unit(), -1/a)
	}
	slices.Sort(ev)
	return ev
}

// Changed reports whether a host shows anything new between two moments. It looks at every page, so use it only in
// tests.
func (w *World) Changed(host int, from, to time.Time) bool {
	for p := range w.hosts[host].Pages {
		if w.Version(host, p, from).Text != w.Version(host, p, to).Text {
			return true
		}
	}
	return false
}
