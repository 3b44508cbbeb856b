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

// How long descend looks.
const (
	rounds   = 60 // balancings of whole buckets
	sweeps   = 30
	stalling = 4
	shakes   = 800 // random changes to the best plan
)

// descend looks for a plan near the dual's. In every round each bucket in turn takes its best pattern at prices that rise where the others use more than there
// is, ever more steeply; that balances whole buckets. Then the periods are improved one at a time: with the others held, the objective is linear in a
// period's crawls, so a fractional knapsack is its optimum.
func (p *primal) descend(d *dual, rounds, shakes int) {
	T, m := p.T, p.m
	price := slices.Clone(d.bestPrice)
	z := make([]float64, T)
	for t := range z {
		z[t] = d.reach[t+1] - d.reach[t]
	}
	usage := make([]float64, T)
	share := make([]float64, p.n*T) // whole-bucket patterns
	pages := make([]float64, T)
	order := make([]int, p.n)
	for i := range order {
		order[i] = i
		for t := range T {
			share[i*T+t] = d.x[i*(T+1)+t+1]
		}
	}
	grown := func(b *Bucket) { // b_{i,t-1} for t = 1..T
		n := b.Pages
		for t := range T {
			pages[t] = n
			n += b.Share * z[t]
		}
	}
	for k := range rounds {
		clear(usage)
		for i := range p.n {
			grown(&m.Buckets[i])
			for t := range T {
				usage[t] += share[i*T+t] * pages[t] * at(m.Buckets[i].Cost, t)
			}
		}
		for t := range T {
			usage[t] += z[t] * at(m.NewCost, t)
		}
		steep := 1.5 * math.Pow(20, float64(k)/float64(rounds))
		for j := len(order) - 1; j > 0; j-- {
			r := int(mix(uint64(k*MaxBuckets+j)) % uint64(j+1))
			order[j], order[r] = order[r], order[j]
		}
		for _, i := range order {
			b := &m.Buckets[i]
			grown(b)
			for t := range T {
				usage[t] -= share[i*T+t] * pages[t] * at(b.Cost, t)
			}
			d.pattern(i, pages, func(t int) float64 {
				c := max(at(m.Capacity, t), 1e-9)
				return price[t] * math.Exp(min(steep*((usage[t]+pages[t]*at(b.Cost, t)/2)/c-1), 50))
			}, share[i*T:(i+1)*T])
			for t := range T {
				usage[t] += share[i*T+t] * pages[t] * at(b.Cost, t)
			}
		}
		copy(p.u, share)
		for t := range T - 1 {
			p.fill[t] = k%2 == 1 && mix(uint64(k*MaxPeriods+t)+1<<50)%4 > 0
		}
		stall, last := 0, math.Inf(1)
		for range sweeps {
			p.sweep(price)
			p.keep()
			if p.obj > last*(1-1e-6) {
				if stall++; stall >= stalling {
					break
				}
			}
			last = min(last, p.obj)
		}
		copy(z, p.best.z)
	}
	if p.n == 0 {
		return
	}
	for k := range shakes {
		p.restore()
		for r := range 1 + k%3 {
			h := mix(uint64(k)<<8 + uint64(r) + 1<<40)
			i, t := int(h%uint64(p.n)), int(h>>20%uint64(T))
			switch {
			case h>>60&1 == 1 && t < T-1:
				p.fill[t] = !p.fill[t]
			default:
				p.u[i*T+t] = 1 - math.Round(p.u[i*T+t])
			}
			if h>>40&1 == 1 {
				o := int(h >> 41 % uint64(p.n))
				t2 := int(h >> 50 % uint64(T))
				p.u[o*T+t], p.u[o*T+t2] = p.u[o*T+t2], p.u[o*T+t]
			}
		}
		for range 3 {
			p.sweep(price)
			p.keep()
		}
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

// mix is splitmix64: an order of the buckets that is the same every time.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sweep goes through the periods once, forwards; every state it passes through keeps all constraints.
func (p *primal) sweep(price []float64) {
	m, T := p.m, p.T
	for i := range p.n {
		b := &m.Buckets[i]
		v := 0.
		for t := T - 1; t >= 0; t-- {
			// v after t: the periods behind it, with their current shares.
			if t < T-1 {
				v = (1 - p.u[i*T+t+1]) * (1 - at(b.Change, t+1)) * v
			}
			v += at(b.Weight, t)
			p.v[i*T+t] = v
		}
	}
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
		cs := p.cand[:0]
		for i := range p.n {
			b := &m.Buckets[i]
			pages, old := b.Pages, b.Obsolete
			if t > 0 {
				pages, old = p.b[i*T+t-1], p.y[i*T+t-1]
			}
			a := at(b.Change, t)
			h := (1-a)*old + a*pages
			p.y[i*T+t] = h // not crawled; the knapsack scales it
			p.b[i*T+t] = pages
			p.u[i*T+t] = 0
			if pages > 0 {
				gain := h/pages*p.v[i*T+t] - at(b.Finds, t)*newValue[t]
				if gain > 0 {
					cs = append(cs, item{i, gain / at(b.Cost, t), pages})
				}
			}
		}
		if gain := (1-at(m.NewFinds, t))*newValue[t] - grown[t]; gain > 0 && known > 0 {
			cs = append(cs, item{-1, gain / at(m.NewCost, t), known})
		}
		slices.SortFunc(cs, func(a, b item) int {
			switch {
			case a.density > b.density:
				return -1
			case a.density < b.density:
				return 1
			}
			return a.i - b.i
		})
		p.cand = cs
		left, z, found := at(m.Capacity, t), 0., 0.
		waiting := 0. // new pages that wait for room which no whole bucket fills
		for _, c := range cs {
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

// growth is what a page that joins the buckets at the end of t costs from then on: it goes stale and takes its share of the crawls.
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
