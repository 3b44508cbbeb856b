package cycle

import (
	"math"
	"slices"
)

// primal is a plan as shares u_it = x_it/b_{i,t-1}, z_t, and what follows from them.
type primal struct {
	m    *Model
	T, n int
	u    []float64 // u[i*T+t]
	z    []float64
	y, b []float64 // at the end of the period
	nNew []float64
	obj  float64
	v    []float64 // v[i*T+t]: what one obsolete page of bucket i at the end of t costs from then on, not counting t's own crawls
	cand []item
	fill []bool // periods in which new pages only take the room that whole buckets leave

	best *primal
}

type item struct {
	i       int // bucket; -1: new pages
	density float64
	amount  float64
}

func newPrimal(m *Model) *primal {
	T, n := m.Periods, len(m.Buckets)
	mk := func() *primal {
		return &primal{m: m, T: T, n: n, u: make([]float64, n*T), z: make([]float64, T), y: make([]float64, n*T), b: make([]float64, n*T), nNew: make([]float64, T),
			v: make([]float64, n*T), fill: make([]bool, T), obj: math.Inf(1)}
	}
	p := mk()
	p.best = mk()
	return p
}

func (p *primal) keep() {
	if p.obj < p.best.obj {
		copy(p.best.u, p.u)
		copy(p.best.z, p.z)
		copy(p.best.y, p.y)
		copy(p.best.b, p.b)
		copy(p.best.nNew, p.nNew)
		copy(p.best.fill, p.fill)
		p.best.obj = p.obj
	}
}

func (p *primal) restore() {
	copy(p.u, p.best.u)
	copy(p.z, p.best.z)
	copy(p.y, p.best.y)
	copy(p.b, p.best.b)
	copy(p.nNew, p.best.nNew)
	copy(p.fill, p.best.fill)
}

// sweep goes through the periods once, forwards. Every state that it passes through keeps all constraints.
func (p *primal) sweep(price []float64) {
	m, T := p.m, p.T
	p.values()
	grown := p.growth(price)
	newValue := make([]float64, T) // what one more new page at the end of t costs in all
	w := 0.
	for t := T - 1; t >= 0; t-- {
		w += at(m.NewWeight, t)
		newValue[t] = w
	}
	known := m.New
	obj := 0.
	for t := range T {
		p.candidates(t, newValue[t])
		if gain := (1-at(m.NewFinds, t))*newValue[t] - grown[t]; gain > 0 && known > 0 {
			p.cand = append(p.cand, item{-1, gain / at(m.NewCost, t), known})
		}
		slices.SortFunc(p.cand, func(a, b item) int {
			switch {
			case a.density > b.density:
				return -1
			case a.density < b.density:
				return 1
			}
			return a.i - b.i
		})
		z, found := p.knapsack(t)
		p.z[t] = z
		known = max(0, known+found+(at(m.NewFinds, t)-1)*z+m.Arrive)
		p.nNew[t] = known
		obj += at(m.NewWeight, t) * known
		for i := range p.n {
			p.b[i*T+t] += m.Buckets[i].Share * z
			obj += at(m.Buckets[i].Weight, t) * p.y[i*T+t]
		}
	}
	p.obj = obj
}

// values computes v, with the current shares of the periods behind t.
func (p *primal) values() {
	T := p.T
	for i := range p.n {
		b := &p.m.Buckets[i]
		v := 0.
		for t := T - 1; t >= 0; t-- {
			if t < T-1 {
				v = (1 - p.u[i*T+t+1]) * (1 - at(b.Change, t+1)) * v
			}
			v += at(b.Weight, t)
			p.v[i*T+t] = v
		}
	}
}

// candidates collects the buckets whose crawl in period t gains something, and sets their state as if none were crawled.
func (p *primal) candidates(t int, newValue float64) {
	T := p.T
	p.cand = p.cand[:0]
	for i := range p.n {
		b := &p.m.Buckets[i]
		pages, old := b.Pages, b.Obsolete
		if t > 0 {
			pages, old = p.b[i*T+t-1], p.y[i*T+t-1]
		}
		a := at(b.Change, t)
		h := (1-a)*old + a*pages
		p.y[i*T+t] = h // knapsack scales it
		p.b[i*T+t] = pages
		p.u[i*T+t] = 0
		if pages > 0 {
			gain := h/pages*p.v[i*T+t] - at(b.Finds, t)*newValue
			if gain > 0 {
				p.cand = append(p.cand, item{i, gain / at(b.Cost, t), pages})
			}
		}
	}
}

// knapsack fills period t with the candidates in order, and returns how many new pages it crawls and how many the crawls find.
func (p *primal) knapsack(t int) (z, found float64) {
	m, T := p.m, p.T
	left := at(m.Capacity, t)
	waiting := 0. // new pages that wait for room which no whole bucket fills
	for _, c := range p.cand {
		if left <= 0 {
			break
		}
		if c.i < 0 {
			if p.fill[t] {
				waiting = c.amount
				continue
			}
			z = min(c.amount, left/at(m.NewCost, t))
			left -= z * at(m.NewCost, t)
			continue
		}
		cost := at(m.Buckets[c.i].Cost, t)
		if waiting > 0 && c.amount*cost > left {
			z = min(waiting, left/at(m.NewCost, t))
			left -= z * at(m.NewCost, t)
			waiting = 0
		}
		x := min(c.amount, left/cost)
		left -= x * cost
		u := x / c.amount
		p.u[c.i*T+t] = u
		p.y[c.i*T+t] *= 1 - u
		found += at(m.Buckets[c.i].Finds, t) * x
	}
	return z, found
}

// growth is what a page that joins the buckets at the end of t costs from then on: the page goes stale and takes its share of the crawls.
func (p *primal) growth(price []float64) []float64 {
	m, T := p.m, p.T
	g := make([]float64, T)
	for i := range p.n {
		b := &m.Buckets[i]
		if b.Share == 0 {
			continue
		}
		sum := 0.
		for t := T - 2; t >= 0; t-- { // b at the end of t matters to period t+1
			u := p.u[i*T+t+1]
			sum += at(b.Change, t+1)*(1-u)*p.v[i*T+t+1] + u*at(b.Cost, t+1)*price[t+1]
			g[t] += b.Share * sum
		}
	}
	return g
}

func (p *primal) plan() *Plan {
	q, T := p.best, p.T
	pl := &Plan{Z: slices.Clone(q.z), N: slices.Clone(q.nNew), Objective: q.obj}
	for i := range p.n {
		x := make([]float64, T)
		for t := range x {
			pages := p.m.Buckets[i].Pages
			if t > 0 {
				pages = q.b[i*T+t-1]
			}
			x[t] = q.u[i*T+t] * pages
		}
		pl.X = append(pl.X, x)
		pl.Y = append(pl.Y, slices.Clone(q.y[i*T:(i+1)*T]))
		pl.B = append(pl.B, slices.Clone(q.b[i*T:(i+1)*T]))
	}
	return pl
}
