package recrawl

import (
	"cmp"
	"context"
	"math"
	"slices"

	"shoal/recrawl/cycle"
)

// cyclePlan is the period in force, and the cycle that it belongs to.
type cyclePlan struct {
	from, to Tick
	due      []Tick              // by slot; 0: not in this period
	period   int                 // of the cycle, from 0
	cycles   int                 // completed
	share    map[uint8][]float64 // u_it by bucket
	fresh    []float64           // z_t over the new channels known
	capacity float64             // a tick
	arrive   float64             // a tick
	Old, New int                 // channels in this period
	channels int                 // in the model
	Fast     float64             // expected tasks of the channels that change faster than the model allows
	strategy int                 // the paper's, that the cycle follows
	Gap      float64             // of the cycle's plan to its bound
}

// firstCycles is how many cycles follow Strategy 2; lastWeight is Strategy 3's weight of the last period.
const (
	firstCycles = 2
	lastWeight  = .8
)

// planning is what strategy cycle needs for a plan beside the facts.
type planning struct {
	prices  costs
	every   float64 // ticks of a period
	periods int
	begin   bool // a new cycle begins
}

// make completes the plan of the period next.
func (w *planning) make(ctx context.Context, next *cyclePlan, facts []Facts) error {
	all := 0.
	for i := range facts {
		if plannable(&facts[i]) && slow(&facts[i], w.every) {
			next.channels++
			all += w.prices.cost(&facts[i])
		}
	}
	all /= w.every
	if next.capacity == 0 || next.capacity > all { // everything in every period is the most there can be to do
		next.capacity = all
	}
	if w.begin {
		next.period = 0
		if err := w.solve(next, facts); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w.spread(next, facts)
	return nil
}

// census counts the channels that the model holds.
type census struct {
	by               [cycle.MaxBuckets]bucketSums
	known, rates     float64 // channels crawled before, and the sum of their change rates
	fresh, freshCost float64 // channels never crawled, and the sum of their costs
}

type bucketSums struct{ n, obsolete, rate, cost, weight float64 }

func (w *planning) count(now Tick, facts []Facts) *census {
	c := &census{}
	for i := range facts {
		f := &facts[i]
		if !plannable(f) || !slow(f, w.every) {
			continue
		}
		cost := w.prices.cost(f)
		if f.Updated == 0 {
			c.fresh++
			c.freshCost += cost
			continue
		}
		b := &c.by[f.Bucket]
		c.known++
		c.rates += f.Est.Rate()
		b.n++
		b.rate += f.Est.Rate()
		b.obsolete += -math.Expm1(-f.Est.Rate() * float64(now-f.Updated))
		b.cost += cost
		b.weight += float64(f.Weighed())
	}
	return c
}

// solve plans a cycle.
func (w *planning) solve(p *cyclePlan, facts []Facts) error {
	c := w.count(p.from, facts)
	m, of := w.model(p, c)
	plan, err := cycle.Solve(m)
	if err != nil {
		return err
	}
	p.share, p.fresh, p.Gap = map[uint8][]float64{}, make([]float64, w.periods), plan.Gap
	for j, k := range of {
		u := make([]float64, w.periods)
		n := m.Buckets[j].Pages
		for t := range u {
			u[t] = plan.X[j][t] / n
			n = plan.B[j][t]
		}
		p.share[k] = u
	}
	n := m.New
	for t := range p.fresh {
		if n > 0 {
			p.fresh[t] = min(plan.Z[t]/n, 1)
		}
		n = plan.N[t]
	}
	return nil
}

// model is the paper's model of the cycle, and the buckets in use. It also sets the paper's strategy that the cycle follows.
func (w *planning) model(p *cyclePlan, c *census) (m *cycle.Model, of []uint8) {
	m = &cycle.Model{Periods: w.periods, Capacity: []float64{p.capacity * w.every}, New: c.fresh, Arrive: p.arrive * w.every,
		NewCost: []float64{max(w.prices.mean+w.prices.p.CostBase, 1)}}
	if c.fresh > 0 {
		m.NewCost[0] = c.freshCost / c.fresh
	}
	switch often := c.rates * w.every * float64(w.periods); {
	case p.cycles < firstCycles:
		p.strategy, m.NewWeight = 2, cycle.Strategy2(w.periods)
	case often > c.known: // the mean channel changes within a cycle, so that its end says little of the rest
		p.strategy, m.NewWeight = 1, cycle.Strategy1(w.periods)
	default:
		p.strategy, m.NewWeight = 3, cycle.Strategy3(w.periods, lastWeight)
	}
	for k := range c.by {
		b := c.by[k]
		if b.n == 0 {
			continue
		}
		mean := b.weight / b.n
		weights := make([]float64, w.periods)
		for t := range weights {
			weights[t] = m.NewWeight[t] * mean
		}
		of = append(of, uint8(k))
		m.Buckets = append(m.Buckets, cycle.Bucket{Pages: b.n, Obsolete: min(b.obsolete, b.n), Share: b.n / c.known,
			Change: []float64{-math.Expm1(-b.rate / b.n * w.every)}, Cost: []float64{b.cost / b.n}, Weight: weights})
	}
	return m, of
}

// spread makes the period's due times.
func (w *planning) spread(p *cyclePlan, facts []Facts) {
	p.due = make([]Tick, len(facts))
	var by [cycle.MaxBuckets][]Slot
	var fresh []Slot
	for i := range facts {
		f := &facts[i]
		switch {
		case !plannable(f) || !slow(f, w.every) || f.Out > 0:
		case f.Updated == 0:
			fresh = append(fresh, Slot(i))
		default:
			by[f.Bucket] = append(by[f.Bucket], Slot(i))
		}
	}
	length := float64(p.to - p.from)
	lay := func(slots []Slot, share float64) int {
		n := int(math.Round(share * float64(len(slots))))
		for k, s := range slots[:min(n, len(slots))] {
			p.due[s] = p.from + 1 + Tick(length*float64(k)/float64(n))
		}
		return min(n, len(slots))
	}
	for k := range by {
		slots := by[k]
		if len(slots) == 0 {
			continue
		}
		share := 1. // a bucket that the cycle did not know: its channels have just moved there
		if u, ok := p.share[uint8(k)]; ok {
			share = u[p.period]
		}
		slices.SortStableFunc(slots, func(a, b Slot) int { return cmp.Compare(facts[a].Updated, facts[b].Updated) })
		p.Old += lay(slots, share)
	}
	p.New = lay(fresh, p.fresh[p.period])
}
