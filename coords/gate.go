package coords

import "slices"

// gateWindow is how many recent residuals the gate remembers.
const gateWindow = 64

// gateSlack is added to the gate's threshold, so that a very still network does not refuse ordinary jitter.
const gateSlack = 0.25

// gate refuses samples whose residual, relative to the measured time, stands out from the recent ones. Refused residuals are remembered too: when most of the world
// has really moved, the median follows and the gate opens again, while a minority of liars cannot move it.
type gate struct {
	residuals [gateWindow]float64 // a ring
	seen      int
}

func (g *gate) admit(residual, mads float64, after int) bool {
	ok := true
	if g.seen >= after {
		var sorted [gateWindow]float64
		n := copy(sorted[:], g.residuals[:min(g.seen, gateWindow)])
		slices.Sort(sorted[:n])
		median := sorted[n/2]
		for i := range sorted[:n] {
			if sorted[i] -= median; sorted[i] < 0 {
				sorted[i] = -sorted[i]
			}
		}
		slices.Sort(sorted[:n])
		ok = residual <= median+mads*sorted[n/2]+gateSlack
	}
	g.residuals[g.seen%gateWindow] = residual
	g.seen++
	if g.seen >= 2*gateWindow { // keeps the index small, and says that the ring is full
		g.seen -= gateWindow
	}
	return ok
}
