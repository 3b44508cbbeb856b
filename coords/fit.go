package coords

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// The parameters of fitting.
const (
	fitStarts = 3     // nearest vantage points from which it starts, twice each
	fitRounds = 40    // Gauss-Newton steps from each, at most
	fitFloor  = 5.0   // ms added to a round-trip time in the weights, so that none of 0.2 ms outweighs all others
	fitPull   = 0.002 // weight of staying at the nearest vantage point in directions about which the samples say nothing
	fitScale  = 0.7   // relative residual beyond which a sample counts ever less: a liar's does not bend the fit
	fitDims   = Dims + 1
)

// fit minimises the relative residuals of the samples over the place and height of the host, by damped Gauss-Newton steps
// (Levenberg-Marquardt) with Geman-McClure weights. Relative residuals, because what is asked later is which peer is nearest, and for that
// the short samples say most.
func fit(samples []Sample, rng *rand.Rand) (Coord, bool) {
	if len(samples) == 0 {
		return Coord{}, false
	}
	var room [MaxSamples]point
	points := room[:0]
	for i := range samples {
		points = append(points, pointOf(&samples[i]))
	}
	near := slices.Clone(samples)
	slices.SortFunc(near, func(a, b Sample) int { return compareSamples(&a, &b) })
	best, bestCost := Coord{}, math.Inf(1)
	for start := range 2 * min(fitStarts, len(near)) {
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

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// point is what a sample says, made ready for descend.
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

// descend moves at downhill by some steps and returns the cost there. Ridge is the weight of the pull toward anchor. A distance is computed once for
// each place that is tried: its cost and the step from it need the same ones.
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
			wk := w * row[k]
			ak := &a[k]
			for l := 0; l <= k; l++ {
				ak[l] += wk * row[l]
			}
			b[k] -= wk * miss
		}
	}
	return a, b
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

// solve finds x with (A + lambda diag(A)) x = b by Cholesky's method; only the lower half of A is read.
func solve(a *[fitDims][fitDims]float64, b *[fitDims]float64, lambda float64) ([fitDims]float64, bool) {
	var l [fitDims][fitDims]float64
	for i := range fitDims {
		for j := range i + 1 {
			sum := a[i][j]
			if i == j {
				sum += lambda*a[i][i] + 1e-12
			}
			for k := range j {
				sum -= l[i][k] * l[j][k]
			}
			if i != j {
				l[i][j] = sum / l[j][j]
				continue
			}
			if !(sum > 0) {
				return [fitDims]float64{}, false
			}
			l[i][i] = math.Sqrt(sum)
		}
	}
	var x [fitDims]float64
	for i := range fitDims {
		sum := b[i]
		for k := range i {
			sum -= l[i][k] * x[k]
		}
		x[i] = sum / l[i][i]
	}
	for i := fitDims - 1; i >= 0; i-- {
		sum := x[i]
		for k := i + 1; k < fitDims; k++ {
			sum -= l[k][i] * x[k]
		}
		x[i] = sum / l[i][i]
	}
	return x, true
}
