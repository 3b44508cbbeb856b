package cycle

import "math"

// Iterations of the ascent on the prices: soft ones move towards the optimum, hard ones then tighten the bound.
const (
	softSteps = 150
	hardSteps = 900
)

// dual holds the prices lambda_t of capacity (constraint 1) and mu_t of "no more new pages crawled than known" (constraint 6).
//
// With prices, the model falls apart into buckets but for b_it = b_i0 + p_i Z_t, Z_t = z_1+..+z_t. A bucket's cost of any crawl pattern is
// linear in Z with coefficients beta >= 0, so its optimum is concave in Z. A lower bound follows from letting each bucket choose its own Z_t
// from 0..reach_t at its own price nu_it, which the new pages get back. Any nu is valid; nu = p_i beta of the optimal pattern is tight where
// the pattern does not depend on Z.
type dual struct {
	m     *Model
	T, n  int
	reach []float64 // most new pages that can be crawled by the end of t (index 1..T)
	gate  bool      // crawling finds new pages, so constraint 6 is not all in reach and mu is needed

	hold  []float64 // hold[(i*(T+1)+s)*(T+2)+e]: coefficient of b_is in the cost of bucket i, not crawled after s and before e
	decay []float64 // decay[i*(T+2)+e]: coefficient of y_i0 if the first crawl is at e

	lambda, mu []float64
	nu         []float64 // nu[i*(T+1)+t]
	value      []float64 // E_s: what a new page found in s costs
	usage      []float64 // of capacity, at the last evaluation
	x          []float64 // soft shares u[i*(T+1)+t] of the last evaluation
	z          []float64
	found      []float64

	best            float64
	bestPrice       []float64
	bestMu          []float64
	f, g, seg, coef []float64
	from            [MaxPeriods + 2]int
}

func newDual(m *Model) *dual {
	T, n := m.Periods, len(m.Buckets)
	d := &dual{m: m, T: T, n: n, reach: make([]float64, T+1), hold: make([]float64, n*(T+1)*(T+2)), decay: make([]float64, n*(T+2)),
		lambda: make([]float64, T+2), mu: make([]float64, T+2), nu: make([]float64, n*(T+1)), value: make([]float64, T+2), usage: make([]float64, T+1),
		x: make([]float64, n*(T+1)), z: make([]float64, T+1), found: make([]float64, T+1), best: math.Inf(-1), f: make([]float64, T+2), g: make([]float64, T+2),
		seg: make([]float64, (T+1)*(T+2)), coef: make([]float64, (T+1)*(T+2))}
	for i := range m.Buckets {
		b := &m.Buckets[i]
		for s := 0; s <= T; s++ {
			p, sum := 1., 0.
			for e := s + 2; e <= T+1; e++ { // adds period e-1
				if e > s+2 {
					p *= 1 - at(b.Change, e-2)
				}
				sum += at(b.Weight, e-2) * p
				d.hold[(i*(T+1)+s)*(T+2)+e] = at(b.Change, s) * sum
			}
		}
		p, sum := 1., 0.
		for e := 2; e <= T+1; e++ {
			p *= 1 - at(b.Change, e-2)
			sum += at(b.Weight, e-2) * p
			d.decay[i*(T+2)+e] = sum
		}
	}
	known := m.New
	for t := 1; t <= T; t++ {
		d.reach[t] = max(d.reach[t-1], min(known+at(m.NewFinds, t-1)*d.reach[t-1], d.reach[t-1]+at(m.Capacity, t-1)/at(m.NewCost, t-1)))
		finds := 0.
		for i := range m.Buckets {
			finds = max(finds, at(m.Buckets[i].Finds, t-1)/at(m.Buckets[i].Cost, t-1))
		}
		known += m.Arrive + finds*at(m.Capacity, t-1)
		d.gate = d.gate || finds > 0 || at(m.NewFinds, t-1) > 0
	}
	d.start()
	return d
}

// start prices capacity at what crawling everything evenly would gain per unit.
func (d *dual) start() {
	for t := 1; t <= d.T; t++ {
		gain, cost := 0., 0.
		for i := range d.m.Buckets {
			b := &d.m.Buckets[i]
			w := 0.
			for s := t; s <= d.T; s++ {
				w += at(b.Weight, s-1)
			}
			gain += b.Pages * at(b.Change, t-1) * w
			cost += b.Pages * at(b.Cost, t-1)
		}
		d.lambda[t] = max(gain, 1e-12) / max(cost, 1e-12)
	}
}

// eval computes the bound at the current prices; with temperature > 0 it also computes soft shares and usage for the next step.
func (d *dual) eval(temperature float64) (bound float64) {
	m, T := d.m, d.T
	e := 0.
	for s := T; s >= 1; s-- {
		e += at(m.NewWeight, s-1) - d.mu[s+1]
		d.value[s] = e
	}
	clear(d.usage)
	clear(d.found)
	nuSum := make([]float64, T+2)
	for i := range m.Buckets {
		for t := 1; t <= T; t++ {
			nuSum[t] += d.nu[i*(T+1)+t]
		}
		bound += d.bucket(i, temperature) // moves nu for the next time
	}
	// New pages: those that come within reach at t are crawled at the cheapest s >= t, if that is worth it.
	clear(d.z)
	tail, kappa, arg := 0., math.Inf(1), T
	batch := make([]float64, T+1)
	where := make([]int, T+1)
	for t := T; t >= 1; t-- {
		tail += nuSum[t]
		k := d.lambda[t]*at(m.NewCost, t-1) + (at(m.NewFinds, t-1)-1)*d.value[t] + d.mu[t] + tail
		if k < kappa {
			kappa, arg = k, t
		}
		batch[t], where[t] = kappa, arg
	}
	for t := 1; t <= T; t++ {
		if batch[t] < 0 {
			n := d.reach[t] - d.reach[t-1]
			bound += batch[t] * n
			d.z[where[t]] += n
		}
	}
	for t := 1; t <= T; t++ {
		d.usage[t] += at(m.NewCost, t-1) * d.z[t]
		bound += (at(m.NewWeight, t-1) - d.mu[t+1]) * (m.New + float64(t)*m.Arrive)
		bound -= d.lambda[t] * at(m.Capacity, t-1)
	}
	bound -= d.mu[1] * m.New
	if bound > d.best {
		d.best = bound
		d.bestPrice = append(d.bestPrice[:0], d.lambda[1:T+1]...)
		d.bestMu = append(d.bestMu[:0], d.mu...)
	}
	return bound
}

// bucket is the Lagrangian optimum of bucket i: f[e] is the least cost of everything up to and including a crawl in period e.
func (d *dual) bucket(i int, temperature float64) float64 {
	T, b := d.T, &d.m.Buckets[i]
	seg, coef := d.seg, d.coef
	nu := d.nu[i*(T+1) : (i+1)*(T+1)]
	f := d.f
	f[0] = 0
	for e := 1; e <= T+1; e++ {
		sum, best := 0., math.Inf(1)
		for s := e - 1; s >= 0; s-- {
			k := d.hold[(i*(T+1)+s)*(T+2)+e]
			if s == e-1 {
				if e <= T {
					k = d.lambda[e]*at(b.Cost, e-1) + at(b.Finds, e-1)*d.value[e]
				} else {
					k = 0
				}
			}
			sum += k * b.Pages
			if s > 0 {
				if r := k*b.Share - nu[s]; r < 0 {
					sum += r * d.reach[s]
				}
			}
			c := sum
			if s == 0 {
				c += d.decay[i*(T+2)+e] * b.Obsolete
			}
			seg[s*(T+2)+e], coef[s*(T+2)+e] = c, k
			if f[s]+c < best {
				best, d.from[e] = f[s]+c, s
			}
		}
		f[e] = best
	}
	if temperature == 0 {
		d.trace(i)
	} else {
		d.soften(i, temperature*(b.Pages+1e-9)*d.scale(i))
	}
	return f[T+1]
}

// pattern fills u with the periods (from 0) in which bucket i is best crawled wholly, at prices of capacity and with pages[t] = b_{i,t-1}.
func (d *dual) pattern(i int, pages []float64, price func(t int) float64, u []float64) {
	T, b := d.T, &d.m.Buckets[i]
	var from [MaxPeriods + 2]int
	f := d.f
	f[0] = 0
	for e := 1; e <= T+1; e++ {
		sum, best := 0., math.Inf(1)
		for s := e - 1; s >= 0; s-- {
			if s == e-1 {
				if e <= T {
					sum = (price(e-1)*at(b.Cost, e-1) + at(b.Finds, e-1)*d.value[e]) * pages[s]
				}
			} else {
				sum += d.hold[(i*(T+1)+s)*(T+2)+e] * pages[s]
			}
			c := sum
			if s == 0 {
				c += d.decay[i*(T+2)+e] * b.Obsolete
			}
			if f[s]+c < best {
				best, from[e] = f[s]+c, s
			}
		}
		f[e] = best
	}
	clear(u)
	for e := from[T+1]; e > 0; e = from[e] {
		u[e-1] = 1
	}
}

// scale is the bucket's largest weight: its costs are about pages times that.
func (d *dual) scale(i int) float64 {
	w := 1e-12
	for t := range d.T {
		w = max(w, at(d.m.Buckets[i].Weight, t))
	}
	return w
}

// trace adds the optimal pattern's use of capacity, and moves nu a little towards its p_i beta.
func (d *dual) trace(i int) {
	T, b := d.T, &d.m.Buckets[i]
	const pace = .03
	for e := T + 1; e > 0; e = d.from[e] {
		s := d.from[e]
		if s > 0 {
			d.usage[s] += at(b.Cost, s-1) * b.Pages
			d.found[s] += at(b.Finds, s-1) * b.Pages
		}
		if b.Share > 0 {
			for q := max(s, 1); q < e; q++ {
				nu := &d.nu[i*(T+1)+q]
				k := d.coef[q*(T+2)+e] * b.Share
				r := k - *nu
				if r < 0 { // this bucket's own Z is at its reach there
					if q == e-1 && e <= T {
						d.usage[e] += at(b.Cost, e-1) * b.Share * d.reach[q]
					}
				}
				*nu += pace * r
			}
		}
	}
}

// soften takes every pattern with probability e^(-cost/temperature) and gives the shares crawled, their use of capacity, and nu.
func (d *dual) soften(i int, temperature float64) {
	T, b := d.T, &d.m.Buckets[i]
	seg, f, g := d.seg, d.f, d.g
	soft := func(v []float64) float64 {
		lo := math.Inf(1)
		for _, x := range v {
			lo = min(lo, x)
		}
		s := 0.
		for _, x := range v {
			if x-lo < 30*temperature {
				s += math.Exp((lo - x) / temperature)
			}
		}
		return lo - temperature*math.Log(s)
	}
	var buf [MaxPeriods + 2]float64
	hard := f[T+1]
	f[0] = 0
	for e := 1; e <= T+1; e++ {
		for s := range e {
			buf[s] = f[s] + seg[s*(T+2)+e]
		}
		f[e] = soft(buf[:e])
	}
	g[T+1] = 0
	for s := T; s >= 0; s-- {
		for e := s + 1; e <= T+1; e++ {
			buf[e-s-1] = g[e] + seg[s*(T+2)+e]
		}
		g[s] = soft(buf[:T+1-s])
	}
	u := d.x[i*(T+1) : (i+1)*(T+1)]
	nu := d.nu[i*(T+1) : (i+1)*(T+1)]
	clear(nu)
	for t := 1; t <= T; t++ {
		u[t] = math.Exp(min(0, f[T+1]-f[t]-g[t]) / temperature)
		x := u[t] * b.Pages
		d.usage[t] += at(b.Cost, t-1) * x
		d.found[t] += at(b.Finds, t-1) * x
	}
	if b.Share > 0 {
		for e := 1; e <= T+1; e++ {
			above := 0. // probability of a segment that begins at or before s and ends at e
			for s := range e {
				if c := f[T+1] - f[s] - seg[s*(T+2)+e] - g[e]; c > -30*temperature {
					above += math.Exp(min(0, c) / temperature)
				}
				nu[s] += b.Share * above * d.coef[s*(T+2)+e]
			}
		}
	}
	f[T+1] = hard
}

// ascend moves the prices: multiplicatively in how far the soft solution's use is from capacity, cooling down.
func (d *dual) ascend() {
	m, T := d.m, d.T
	for k := range softSteps {
		temperature := .05 * math.Pow(.01, float64(k)/softSteps)
		eta := .6 * math.Pow(.1, float64(k)/softSteps)
		d.eval(temperature)
		n := m.New
		for t := 1; t <= T; t++ {
			c := at(m.Capacity, t-1)
			r := 4.
			if c > 0 {
				r = max(min(d.usage[t]/c-1, 2), -1)
			}
			d.lambda[t] = min(max(d.lambda[t]*math.Exp(eta*r), 1e-15), 1e15)
			if d.gate {
				scale := max(d.z[t], n, 1)
				d.mu[t] = max(0, d.mu[t]+.3*eta*d.lambda[t]*(d.z[t]-n)/scale)
			}
			n += d.found[t] + (at(m.NewFinds, t-1)-1)*d.z[t] + m.Arrive
		}
	}
}

// polish tightens the bound by subgradient steps of Polyak's length, towards a target between the best bound and a plan's objective. The target
// comes nearer whenever it proves too far.
func (d *dual) polish(objective float64) {
	m, T := d.m, d.T
	copy(d.lambda[1:], d.bestPrice)
	copy(d.mu, d.bestMu)
	ahead, since := (objective-d.best)/2, 0
	for range hardSteps {
		before := d.best
		bound := d.eval(0)
		norm, n := 1e-300, m.New
		var g, h [MaxPeriods + 2]float64
		for t := 1; t <= T; t++ {
			g[t] = d.usage[t] - at(m.Capacity, t-1)
			if d.lambda[t] <= 0 && g[t] < 0 {
				g[t] = 0
			}
			norm += g[t] * g[t]
			if d.gate {
				h[t] = d.z[t] - n
				if d.mu[t] <= 0 && h[t] < 0 {
					h[t] = 0
				}
				norm += h[t] * h[t]
			}
			n += d.found[t] + (at(m.NewFinds, t-1)-1)*d.z[t] + m.Arrive
		}
		step := (d.best + ahead - bound) / norm
		for t := 1; t <= T; t++ {
			d.lambda[t] = max(0, d.lambda[t]+step*g[t])
			d.mu[t] = max(0, d.mu[t]+step*h[t])
		}
		if since++; d.best > before+ahead/50 {
			since = 0
		}
		if since > 25 {
			ahead, since = ahead*.6, 0
			copy(d.lambda[1:], d.bestPrice)
			copy(d.mu, d.bestMu)
		}
	}
}
