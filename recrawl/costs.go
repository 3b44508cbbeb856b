package recrawl

import "math"

// costs tells what a crawl of a channel costs. It is a value: a copy serves a plan that is made away from the loop.
type costs struct {
	p    Params
	mean float64 // service of all channels, ticks: for those that have none of their own
	dear float64 // mean service over weight
	n    float64 // updates that both are of; 0: none yet, or not known
	life float64 // Load.Life
}

// cost is what an update of the channel costs: the ticks of a thread that are spent until a task lives to its end.
//
// Of channels that are dear for their weight only CostShare counts. Without that, the last minute of thread time would always buy more
// freshness at a small site, and the large ones would starve. The step from the whole cost to that share is at CostKnee means; among the
// large channels costs tell as much as among the small.
func (v *costs) cost(f *Facts) float64 {
	if v.p.NoCost {
		return 1
	}
	s := float64(f.Service.Float())
	if s == 0 {
		s = v.mean
	}
	c := s + v.p.CostBase
	if x := s / v.life; v.life > 0 && x > 0 && !v.p.NoSurvival {
		c *= math.Expm1(x) / x // a task that dies does so half way on average
	}
	if knee := v.p.CostKnee * v.dear * float64(f.Weighed()); knee > 0 {
		y := c / knee
		y *= y
		y *= y
		c /= 1 + (1/v.p.CostShare-1)*y/(1+y)
	}
	return c
}

// costsOf is how many updates the means are of: all of the first ones, which the smallest sites are among, and then the latest.
const costsOf = 1000

// served learns how long an update took.
func (v *costs) served(f *Facts, service float64) {
	d := service / float64(f.Weighed())
	if v.n == 0 && v.mean > 0 { // restored
		v.n = costsOf
	}
	v.n = min(v.n+1, costsOf)
	v.mean += (service - v.mean) / v.n
	v.dear += (d - v.dear) / v.n
}

// meanService is the mean of what channels' tasks took, in ticks.
func meanService(facts []Facts) float64 {
	sum, n := 0., 0.
	for i := range facts {
		if s := float64(facts[i].Service.Float()); s > 0 {
			sum += s
			n++
		}
	}
	if n == 0 {
		return 10 // before the first crawl: ten minutes
	}
	return sum / n
}
