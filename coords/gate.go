package coords

import "slices"

// gateWindow is how many recent residuals the gate remembers.
const gateWindow = 64

// gateSlack is added to the gate's threshold, so that a very still network does not refuse ordinary jitter.
const gateSlack = 0.25

// gate refuses samples whose residual, relative to the measured time, stands out from the recent ones. It remembers refused residuals
// too: when most peers have really moved, the median follows and the gate opens again. A minority of liars cannot move the median.
type gate struct {
	residuals [gateWindow]float64 // a ring
	sorted    [gateWindow]float64 // the same ones by size
	seen      int
}

func (g *gate) admit(residual, mads float64, after int) bool {
	ok := true
	n := min(g.seen, gateWindow)
	if g.seen >= after {
		sorted := g.sorted[:n]
		ok = residual <= sorted[n/2]+mads*deviation(sorted)+gateSlack
	}
	at := g.seen % gateWindow
	if n == gateWindow {
		i, _ := slices.BinarySearch(g.sorted[:n], g.residuals[at])
		copy(g.sorted[i:], g.sorted[i+1:n])
		n--
	}
	g.residuals[at] = residual
	i, _ := slices.BinarySearch(g.sorted[:n], residual)
	copy(g.sorted[i+1:n+1], g.sorted[i:n])
	g.sorted[i] = residual
	g.seen++
	if g.seen >= 2*gateWindow { // keeps the index small, and says that the ring is full
		g.seen -= gateWindow
	}
	return ok
}

// deviation is the median absolute deviation from the median. Deviations grow from the middle to both ends, so k steps outward find
// the k-th smallest.
func deviation(sorted []float64) float64 {
	n := len(sorted)
	median := sorted[n/2]
	lo, hi := n/2-1, n/2 // the next to look at, on either side
	last := 0.0
	for range n/2 + 1 {
		if hi < n && (lo < 0 || sorted[hi]-median <= median-sorted[lo]) {
			last = sorted[hi] - median
			hi++
		} else {
			last = median - sorted[lo]
			lo--
		}
	}
	return last
}
