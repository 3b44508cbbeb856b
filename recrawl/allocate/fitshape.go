package allocate

import (
	"math"
	"slices"
	"sort"
)

// fitQuasi seeks instants of the scheduling interval at which the page changes: hazards theta_j of quasiBins instants. It finds them by
// expectation and maximisation over which of the instants within a changed gap made the change.
func fitQuasi(h History, span float64, first int) (Model, error, float64, int) { //nolint:revive,staticcheck // in the order of what add takes
	type row struct {
		n       [quasiBins]float64
		changed bool
	}
	var rows []row
	t := h.Start
	bin := func(t float64) float64 { return math.Floor(t / span * quasiBins) }
	for i, v := range h.Visits {
		t0 := t
		t += v.Gap
		if i < first {
			continue
		}
		r := row{changed: v.Changed}
		a, b := bin(t0), bin(t) // the instants at the bins' upper edges that lie in the gap
		if b-a > 64*quasiBins || math.Abs(a) > 1e15 || math.Abs(b) > 1e15 {
			return Model{}, ErrHistory, 0, 0
		}
		for j := a; j < b; j++ {
			k := int(math.Mod(j, quasiBins))
			if k < 0 {
				k += quasiBins
			}
			r.n[k]++
		}
		rows = append(rows, r)
	}
	var theta [quasiBins]float64
	for j := range theta {
		theta[j] = .1
	}
	for range 60 {
		var hits, exposure [quasiBins]float64
		for _, r := range rows {
			sum := 0.
			for j, n := range r.n {
				sum += n * theta[j]
				exposure[j] += n
			}
			if r.changed && sum > 0 {
				for j, n := range r.n {
					hits[j] += n * theta[j] / -math.Expm1(-sum)
				}
			}
		}
		for j := range theta {
			if exposure[j] > 0 {
				theta[j] = hits[j] / exposure[j]
			}
		}
	}
	ll, params := 0., 1
	var u, k []float64
	for j, th := range theta {
		if th < .01 {
			theta[j] = 0
			continue
		}
		params++
		u = append(u, span*float64(j+1)/quasiBins)
		k = append(k, -math.Expm1(-th))
	}
	for _, r := range rows {
		sum := 0.
		for j, n := range r.n {
			sum += n * theta[j]
		}
		if r.changed {
			ll += math.Log(max(-math.Expm1(-sum), 1e-3)) // a change at no known instant is unlikely, not impossible
		} else {
			ll -= sum
		}
	}
	m, err := NewQuasi(span, u, k, 0)
	return m, err, ll, params
}

// fitEmpirical fits a hazard that is constant between quantiles of the times seen. If that beats the closed forms, the page's own times are
// the model.
func fitEmpirical(runs []spell) (Model, error, float64, int) { //nolint:revive,staticcheck // in the order of what add takes
	var times []float64
	for _, r := range runs {
		if r.g > 0 {
			times = append(times, r.o+r.s+r.g/2)
		}
	}
	slices.Sort(times)
	bins := min(max(int(math.Sqrt(float64(len(times)))/1.5), 2), 12)
	edges := make([]float64, bins) // lower edges
	for i := 1; i < bins; i++ {
		edges[i] = times[i*len(times)/bins]
	}
	hazard := make([]float64, bins)
	exposure := make([]float64, bins)
	at := func(t float64) int { return max(sort.SearchFloat64s(edges, t)-1, 0) }
	for _, r := range runs {
		end := r.o + r.s + r.g/2
		for i := range edges {
			top := math.Inf(1)
			if i+1 < bins {
				top = edges[i+1]
			}
			exposure[i] += max(0, min(end, top)-max(r.o, edges[i]))
		}
		if r.g > 0 {
			hazard[at(end)]++
		}
	}
	for i := range hazard {
		if exposure[i] > 0 {
			hazard[i] = max(hazard[i], .5) / exposure[i]
		}
	}
	logTail := func(t float64) float64 {
		s := 0.
		for i := range edges {
			top := t
			if i+1 < bins {
				top = min(t, edges[i+1])
			}
			s -= hazard[i] * max(0, top-edges[i])
		}
		return s
	}
	ll := 0.
	for _, r := range runs {
		ll += runLogLik(r, logTail)
	}
	m, err := NewEmpirical(times)
	return m, err, ll, bins
}
