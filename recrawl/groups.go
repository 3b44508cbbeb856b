package recrawl

import (
	"math"
	"slices"
)

// Groups divides channels into priority groups of similar change interval. The borders follow the channels, by k-means in one dimension over
// a histogram of the logarithm of their learnt intervals, or they are given. A group's initial interval is the mean interval of its channels.
type Groups struct {
	given []float64 // initial intervals by configuration; nil: learnt
	bound []float64 // between groups i and i+1
	count []int
	sum   []float64 // of the change intervals of the group's channels
	hist  [histBins]int32
}

const (
	// MaxGroups bounds the number of groups.
	MaxGroups = 32
	histBins  = 256
	histScale = 8    // bins an octave
	histShift = 16   // bins below an interval of one tick
	stay      = 1.15 // a channel moves when its interval is past the border by this factor
	mergeNear = 1.05 // centres closer than this leave a group empty
)

func newGroups(k int, given []float64) *Groups {
	if given != nil {
		k = len(given)
	}
	g := &Groups{given: given, bound: make([]float64, k-1), count: make([]int, k), sum: make([]float64, k)}
	if given != nil {
		for i := range g.bound {
			g.bound[i] = math.Sqrt(given[i] * given[i+1])
		}
	} else {
		for i := range g.bound { // until channels are known: an hour, four hours, a day ... in minutes
			g.bound[i] = 120 * math.Pow(4, float64(i))
		}
	}
	return g
}

// K is the number of groups.
func (g *Groups) K() int { return len(g.count) }

// Count is the number of channels of group i that are not paused.
func (g *Groups) Count(i int) int { return g.count[i] }

// Interval is the initial interval of group i: the mean change interval of its channels; for an empty group a guess from its borders.
func (g *Groups) Interval(i int) float64 {
	if g.count[i] > 0 {
		return g.sum[i] / float64(g.count[i])
	}
	if g.given != nil {
		return g.given[i]
	}
	switch {
	case len(g.bound) == 0:
		return 1440
	case i == 0:
		return g.bound[0] / 2
	case i == len(g.bound):
		return g.bound[i-1] * 2
	}
	return math.Sqrt(g.bound[i-1] * g.bound[i])
}

// of is the group for a channel with this interval. now is its present group, below 0 if it has none.
func (g *Groups) of(interval float64, now int) int {
	i := 0
	for i < len(g.bound) && interval >= g.bound[i] {
		i++
	}
	if now >= 0 && now < g.K() && i != now {
		if i > now && interval < g.bound[now]*stay || i < now && interval > g.bound[now-1]/stay {
			return now
		}
	}
	return i
}

func histBin(interval float64) int {
	if !(interval > 0) {
		return 0
	}
	return min(max(octaveBin(interval)+histShift, 0), histBins-1)
}

// octaveBin is floor(log2(x)*histScale). It takes no logarithm unless x is so close to a bin's edge that the last digit decides.
func octaveBin(x float64) int {
	const mantissa = 1<<52 - 1
	bits := math.Float64bits(x)
	octave, part := int(bits>>52)-1023, math.Float64frombits(bits&mantissa|1023<<52) // x = part*2^octave
	i := 0
	for _, e := range octaveEdges[1:histScale] {
		if part >= e {
			i++
		}
	}
	if octave == -1023 || part <= octaveEdges[i]*(1+1e-12) || part >= octaveEdges[i+1]*(1-1e-12) {
		return int(math.Floor(math.Log2(x) * histScale))
	}
	return octave*histScale + i
}

// octaveEdges divides the numbers from 1 to 2 into histScale bins.
var octaveEdges = func() (e [histScale + 1]float64) {
	for i := range e {
		e[i] = math.Exp2(float64(i) / histScale)
	}
	return e
}()

// add takes a channel in. One that rests has no part in what the group's channels need, and only moves the borders.
func (g *Groups) add(group int, interval float64, rests bool) {
	g.hist[histBin(interval)]++
	if rests {
		return
	}
	g.count[group]++
	g.sum[group] += interval
}

func (g *Groups) remove(group int, interval float64, rests bool) {
	g.hist[histBin(interval)]--
	if rests {
		return
	}
	g.count[group]--
	g.sum[group] -= interval
	if g.count[group] == 0 {
		g.sum[group] = 0
	}
}

// relearn moves the borders to where the channels are now. Each channel follows at its next update.
func (g *Groups) relearn() {
	if g.given != nil || len(g.bound) == 0 {
		return
	}
	total, k := 0, g.K()
	for _, n := range g.hist {
		total += int(n)
	}
	if total == 0 {
		return
	}
	centre := make([]float64, 0, k) // in bins; begin at the quantiles
	seen, bin := 0, 0
	for i := range k {
		for want := (2*i + 1) * total / (2 * k); bin < histBins-1 && seen+int(g.hist[bin]) <= want; bin++ {
			seen += int(g.hist[bin])
		}
		centre = append(centre, float64(bin)+float64(i)*1e-6)
	}
	for range 30 {
		var sum, n [MaxGroups]float64
		for b, c := range g.hist {
			if c > 0 {
				i := nearest(centre, float64(b))
				sum[i] += float64(b) * float64(c)
				n[i] += float64(c)
			}
		}
		for i := range centre {
			if n[i] > 0 {
				centre[i] = sum[i] / n[i]
			}
		}
		slices.Sort(centre)
	}
	for i := range g.bound {
		mid := (centre[i]+centre[i+1])/2 + .5
		g.bound[i] = math.Exp2((mid - histShift) / histScale)
		if i > 0 {
			g.bound[i] = max(g.bound[i], g.bound[i-1]*mergeNear)
		}
	}
}

func nearest(centre []float64, x float64) int {
	best := 0
	for i, c := range centre {
		if math.Abs(x-c) < math.Abs(x-centre[best]) {
			best = i
		}
	}
	return best
}
