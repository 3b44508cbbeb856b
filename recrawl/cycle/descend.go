package cycle

import (
	"math"
	"slices"
)

// How long descend looks.
const (
	rounds   = 60 // balancings of whole buckets
	sweeps   = 30
	stalling = 4
	shakes   = 800 // random changes to the best plan
)

// descend looks for a plan near the dual's. In every round each bucket in turn takes its best pattern, at prices that rise where the other
// buckets use more than there is, ever more steeply. That balances whole buckets. Then sweeps improve the periods one at a time: with the
// others held, the objective is linear in a period's crawls, so a fractional knapsack is its optimum.
func (p *primal) descend(d *dual, rounds, shakes int) {
	price := slices.Clone(d.bestPrice)
	b := newBalance(p, d, price)
	for k := range rounds {
		b.round(k, 1.5*math.Pow(20, float64(k)/float64(rounds)))
		copy(p.u, b.share)
		for t := range p.T - 1 {
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
		copy(b.z, p.best.z)
	}
	if p.n == 0 {
		return
	}
	for k := range shakes {
		p.restore()
		p.shake(k)
		for range 3 {
			p.sweep(price)
			p.keep()
		}
	}
}

// shake changes one to three shares at random; k is the seed.
func (p *primal) shake(k int) {
	T := p.T
	for r := range 1 + k%3 {
		h := mix(uint64(k)<<8 + uint64(r) + 1<<40)
		i, t := int(h%uint64(p.n)), int(h>>20%uint64(T))
		if h>>60&1 == 1 && t < T-1 {
			p.fill[t] = !p.fill[t]
		} else {
			p.u[i*T+t] = 1 - math.Round(p.u[i*T+t])
		}
		if h>>40&1 == 1 {
			o := int(h >> 41 % uint64(p.n))
			t2 := int(h >> 50 % uint64(T))
			p.u[o*T+t], p.u[o*T+t2] = p.u[o*T+t2], p.u[o*T+t]
		}
	}
}

// balance is the patterns of whole buckets, and the capacity that they use together.
type balance struct {
	d     *dual
	m     *Model
	T, n  int
	price []float64
	z     []float64
	usage []float64 // by period
	share []float64 // share[i*T+t]: 1 where bucket i is crawled in t
	pages []float64 // of the bucket at hand: b_{i,t-1} for t = 1..T
	order []int     // of the buckets
}

func newBalance(p *primal, d *dual, price []float64) *balance {
	T := p.T
	b := &balance{d: d, m: p.m, T: T, n: p.n, price: price, z: make([]float64, T), usage: make([]float64, T), share: make([]float64, p.n*T),
		pages: make([]float64, T), order: make([]int, p.n)}
	for t := range b.z {
		b.z[t] = d.reach[t+1] - d.reach[t]
	}
	for i := range b.order {
		b.order[i] = i
		for t := range T {
			b.share[i*T+t] = d.x[i*(T+1)+t+1]
		}
	}
	return b
}

// grown fills pages for a bucket that takes its share of the new ones.
func (b *balance) grown(of *Bucket) {
	n := of.Pages
	for t := range b.T {
		b.pages[t] = n
		n += of.Share * b.z[t]
	}
}

// round lets every bucket choose its pattern once, in an order that round k decides.
func (b *balance) round(k int, steep float64) {
	m, T := b.m, b.T
	clear(b.usage)
	for i := range b.n {
		b.grown(&m.Buckets[i])
		for t := range T {
			b.usage[t] += b.share[i*T+t] * b.pages[t] * at(m.Buckets[i].Cost, t)
		}
	}
	for t := range T {
		b.usage[t] += b.z[t] * at(m.NewCost, t)
	}
	for j := len(b.order) - 1; j > 0; j-- {
		r := int(mix(uint64(k*MaxBuckets+j)) % uint64(j+1))
		b.order[j], b.order[r] = b.order[r], b.order[j]
	}
	for _, i := range b.order {
		of := &m.Buckets[i]
		b.grown(of)
		for t := range T {
			b.usage[t] -= b.share[i*T+t] * b.pages[t] * at(of.Cost, t)
		}
		b.d.pattern(i, b.pages, func(t int) float64 {
			c := max(at(m.Capacity, t), 1e-9)
			return b.price[t] * math.Exp(min(steep*((b.usage[t]+b.pages[t]*at(of.Cost, t)/2)/c-1), 50))
		}, b.share[i*T:(i+1)*T])
		for t := range T {
			b.usage[t] += b.share[i*T+t] * b.pages[t] * at(of.Cost, t)
		}
	}
}

// mix is splitmix64: an order of the buckets that is the same every time.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
