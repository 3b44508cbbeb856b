package allocate

import (
	"math"
	"sort"
)

// minimise2 is Nelder and Mead's simplex in two dimensions: enough for two-parameter likelihoods, whose derivatives are awkward when times are
// only known to lie between two visits. A non-finite value counts as worst.
func minimise2(f func(p [2]float64) float64, start [2]float64, step float64) (best [2]float64, value float64) {
	type vertex struct {
		p [2]float64
		v float64
	}
	eval := func(p [2]float64) vertex {
		v := f(p)
		if math.IsNaN(v) {
			v = math.Inf(1)
		}
		return vertex{p, v}
	}
	s := []vertex{eval(start), eval([2]float64{start[0] + step, start[1]}), eval([2]float64{start[0], start[1] + step})}
	at := func(c [2]float64, w [2]float64, k float64) [2]float64 {
		return [2]float64{c[0] + k*(w[0]-c[0]), c[1] + k*(w[1]-c[1])}
	}
	for range 200 {
		sort.SliceStable(s, func(i, j int) bool { return s[i].v < s[j].v })
		if math.Abs(s[2].v-s[0].v) < 1e-9*(1+math.Abs(s[0].v)) && math.Abs(s[2].p[0]-s[0].p[0])+math.Abs(s[2].p[1]-s[0].p[1]) < 1e-5 {
			break
		}
		c := [2]float64{(s[0].p[0] + s[1].p[0]) / 2, (s[0].p[1] + s[1].p[1]) / 2}
		r := eval(at(c, s[2].p, -1))
		switch {
		case r.v < s[0].v:
			if e := eval(at(c, s[2].p, -2)); e.v < r.v {
				r = e
			}
			s[2] = r
		case r.v < s[1].v:
			s[2] = r
		default:
			k := .5
			if r.v < s[2].v {
				k = -.5
			}
			if h := eval(at(c, s[2].p, k)); h.v < min(r.v, s[2].v) {
				s[2] = h
				continue
			}
			for i := 1; i < 3; i++ {
				s[i] = eval(at(s[0].p, s[i].p, .5))
			}
		}
	}
	sort.SliceStable(s, func(i, j int) bool { return s[i].v < s[j].v })
	return s[0].p, s[0].v
}
