package coords

import (
	"math"
	"math/rand/v2"
	"time"
)

// The parameters of fitting.
const (
	fitStarts = 3     // nearest vantage points from which it starts, twice each
	fitRounds = 40    // Gauss-Newton steps from each, at most
	fitFloor  = 5.0   // ms added to a round-trip time in the weights, so that a time of 0.2 ms does not outweigh all others
	fitPull   = 0.002 // weight of staying at the nearest vantage point in directions about which the samples say nothing
	fitScale  = 0.7   // relative residual beyond which a sample counts ever less, so that a liar does not bend the fit
	fitDims   = Dims + 1
)

// fit minimises the relative residuals of the samples over the place and height of the host, by damped Gauss-Newton steps
// (Levenberg-Marquardt) with Geman-McClure weights. The residuals are relative because the later question is which peer is nearest, and
// the short samples say most about that.
func fit(samples []Sample, rng *rand.Rand) (Coord, bool) {
	if len(samples) == 0 {
		return Coord{}, false
	}
	var room [MaxSamples]point
	points := room[:0]
	for i := range samples {
		points = append(points, pointOf(&samples[i]))
	}
	near := nearestSamples(samples)
	best, bestCost := Coord{}, math.Inf(1)
	for start := range 2 * min(fitStarts, len(samples)) {
		anchor := near[start/2].At
		anchor.Height, anchor.Adjust = 0, 0
		rtt := milliseconds(near[start/2].RTT)
		ridge := fitPull / ((rtt + fitFloor) * (rtt + fitFloor)) * float64(len(samples))
		at := anchor
		if start%2 == 1 { // beside the vantage point: on the other side a mirror image may fit better
			for i, u := range direction(rng) {
				at.Vec[i] += u * rtt
			}
		}
		if cost := descend(&at, &anchor, ridge, points, fitRounds); cost < bestCost {
			best, bestCost = at, cost
		}
	}
	sum, weight := 0.0, 0.0
	for i := range samples {
		w := 1 / (milliseconds(samples[i].RTT) + fitFloor)
		sum += w * math.Abs(Distance(&best, &samples[i].At)-milliseconds(samples[i].RTT)) * w
		weight += w
	}
	best.Err = sum/weight + 1/float64(len(samples)+1)
	best.clamp()
	return best, true
}

// nearestSamples are the samples with the shortest times, shortest first.
func nearestSamples(samples []Sample) (near [fitStarts]*Sample) {
	for i := range samples {
		s := &samples[i]
		for k := range near {
			if near[k] == nil || compareSamples(s, near[k]) < 0 {
				near[k], s = s, near[k]
			}
			if s == nil {
				break
			}
		}
	}
	return near
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// point is a sample made ready for descend.
type point struct {
	vec   [Dims]float64
	rest  float64 // of the measured time, when the vantage's own height and adjustment are taken off
	scale float64 // 1 over the measured time, so that residuals are relative
}

func pointOf(s *Sample) point {
	rtt := milliseconds(s.RTT)
	return point{s.At.Vec, rtt - s.At.Height - s.At.Adjust, 1 / (rtt + fitFloor)}
}

func (p *point) apart(at *Coord) float64 {
	sum := 0.0
	for k := range at.Vec {
		d := at.Vec[k] - p.vec[k]
		sum += d * d
	}
	return math.Sqrt(sum)
}

// descend moves at downhill by some steps and returns the cost there. Ridge is the weight of the pull toward anchor. The cost of a place
// and the step from it need the same distances, so each is computed once.
func descend(at, anchor *Coord, ridge float64, points []point, rounds int) float64 {
	lambda := 0.01
	var room, spare [kept]float64
	dist, next := room[:0], spare[:0]
	cost, dist := fitCost(at, anchor, ridge, points, dist)
	for range rounds {
		a, b := normal(at, points, dist)
		for k := range at.Vec {
			a[k][k] += ridge
			b[k] -= ridge * (at.Vec[k] - anchor.Vec[k])
		}
		a[Dims][Dims] += ridge
		b[Dims] -= ridge * at.Height
		improved := false
		for range 8 {
			step, ok := solve(&a, &b, lambda)
			if !ok {
				return cost
			}
			trial := *at
			for k := range trial.Vec {
				trial.Vec[k] += step[k]
			}
			trial.Height = max(0, trial.Height+step[Dims])
			var c float64
			if c, next = fitCost(&trial, anchor, ridge, points, next); c < cost {
				improved = cost-c > 1e-6*cost
				*at, cost = trial, c
				dist, next = next, dist
				lambda = max(lambda/4, 1e-6)
				break
			}
			lambda *= 4
		}
		if !improved {
			break
		}
	}
	return cost
}

// normal is the lower half of J'WJ, and -J'Wr, at a place that lies dist from the points.
func normal(at *Coord, points []point, dist []float64) (a [fitDims][fitDims]float64, b [fitDims]float64) {
	for i := range points {
		p := &points[i]
		var row [fitDims]float64
		if dist[i] > 1e-9 {
			over := 1 / dist[i]
			for k := range at.Vec {
				row[k] = (at.Vec[k] - p.vec[k]) * over
			}
		}
		row[Dims] = 1
		miss := dist[i] + at.Height - p.rest
		r := miss * p.scale
		trust := p.scale / (1 + r*r/(fitScale*fitScale))
		w := trust * trust
		for k := range row {
			b[k] -= w * row[k] * miss
		}
		addOuter(&a, &row, w)
	}
	return a, b
}

// addOuter adds w u u' to the lower half of a. Most of a sample's cost is here; written out it takes half as long as in loops.
func addOuter(a *[fitDims][fitDims]float64, u *[fitDims]float64, w float64) {
	w0 := w * u[0]
	w1 := w * u[1]
	w2 := w * u[2]
	w3 := w * u[3]
	w4 := w * u[4]
	w5 := w * u[5]
	w6 := w * u[6]
	w7 := w * u[7]
	w8 := w * u[8]
	a[0][0] += w0 * u[0]
	a[1][0] += w1 * u[0]
	a[1][1] += w1 * u[1]
	a[2][0] += w2 * u[0]
	a[2][1] += w2 * u[1]
	a[2][2] += w2 * u[2]
	a[3][0] += w3 * u[0]
	a[3][1] += w3 * u[1]
	a[3][2] += w3 * u[2]
	a[3][3] += w3 * u[3]
	a[4][0] += w4 * u[0]
	a[4][1] += w4 * u[1]
	a[4][2] += w4 * u[2]
	a[4][3] += w4 * u[3]
	a[4][4] += w4 * u[4]
	a[5][0] += w5 * u[0]
	a[5][1] += w5 * u[1]
	a[5][2] += w5 * u[2]
	a[5][3] += w5 * u[3]
	a[5][4] += w5 * u[4]
	a[5][5] += w5 * u[5]
	a[6][0] += w6 * u[0]
	a[6][1] += w6 * u[1]
	a[6][2] += w6 * u[2]
	a[6][3] += w6 * u[3]
	a[6][4] += w6 * u[4]
	a[6][5] += w6 * u[5]
	a[6][6] += w6 * u[6]
	a[7][0] += w7 * u[0]
	a[7][1] += w7 * u[1]
	a[7][2] += w7 * u[2]
	a[7][3] += w7 * u[3]
	a[7][4] += w7 * u[4]
	a[7][5] += w7 * u[5]
	a[7][6] += w7 * u[6]
	a[7][7] += w7 * u[7]
	a[8][0] += w8 * u[0]
	a[8][1] += w8 * u[1]
	a[8][2] += w8 * u[2]
	a[8][3] += w8 * u[3]
	a[8][4] += w8 * u[4]
	a[8][5] += w8 * u[5]
	a[8][6] += w8 * u[6]
	a[8][7] += w8 * u[7]
	a[8][8] += w8 * u[8]
}

// fitCost is what descend minimises. The distances to the points replace what is in dist.
func fitCost(at, anchor *Coord, ridge float64, points []point, dist []float64) (float64, []float64) {
	cost := 0.0
	dist = dist[:0]
	for i := range points {
		p := &points[i]
		d := p.apart(at)
		dist = append(dist, d)
		r := (d + at.Height - p.rest) * p.scale
		q := r * r
		cost += q / (1 + q/(fitScale*fitScale))
	}
	stray := at.Height * at.Height
	for k := range at.Vec {
		stray += (at.Vec[k] - anchor.Vec[k]) * (at.Vec[k] - anchor.Vec[k])
	}
	return cost + stray*ridge, dist
}

// solve finds x with (A + lambda diag(A)) x = b by Cholesky's method without square roots, A = L D L'; only the lower half of A is read. l becomes L D,
// and over is 1/D. A column is taken off all others as soon as it is known, since the processor does such subtractions side by side.
func solve(a *[fitDims][fitDims]float64, b *[fitDims]float64, lambda float64) (x [fitDims]float64, ok bool) {
	l := *a
	x = *b
	var over [fitDims]float64
	for i := range fitDims {
		l[i][i] += lambda*l[i][i] + 1e-12
	}
	for k := range fitDims {
		if !(l[k][k] > 0) {
			return x, false
		}
		o := 1 / l[k][k]
		over[k] = o
		for i := k + 1; i < fitDims; i++ {
			row := &l[i]
			c := row[k] * o
			for j := k + 1; j <= i; j++ {
				row[j] -= c * l[j][k]
			}
			x[i] -= c * x[k]
		}
	}
	for i := fitDims - 1; i >= 0; i-- {
		row := &l[i]
		x[i] *= over[i]
		for k := range i {
			x[k] -= row[k] * x[i]
		}
	}
	return x, true
}
