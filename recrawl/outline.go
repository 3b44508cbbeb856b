package recrawl

import (
	"context"
	"math"
	"sort"
)

// Outline is what strategy optimal would plan for facts and a capacity, for an operator who wants to know before it happens.
type Outline struct {
	PlanSummary
	Interval []float64 // planned ticks between crawls, by slot; 0: not planned
	Due      []Tick    // crawls of the coming planning interval, in order
	Slots    []Slot    // whose they are
	Uniform  float64   // the weighted freshness that equal intervals for all would give for the same spending
}

// NewOutline plans. spend is the capacity in busy threads; every is the planning interval.
func NewOutline(ctx context.Context, now Tick, facts []Facts, spend float64, every Tick) (Outline, error) {
	costs := price{p: Params{CostBase: 2, CostKnee: 0}, mean: meanService(facts)}
	p, err := planOptimal(ctx, now, facts, nil, costs.cost, spend, every, nil)
	if err != nil {
		return Outline{}, err
	}
	o := Outline{PlanSummary: p.Summary, Interval: make([]float64, len(facts))}
	total, weight := 0., 0.
	for s, iv := range p.interval {
		o.Interval[s] = math.Abs(float64(iv))
		if plannable(&facts[s]) {
			total += costs.cost(&facts[s])
			weight += float64(facts[s].Weighed())
		}
		if s+1 < len(p.first) && p.due != nil {
			for _, t := range p.due[p.first[s]:p.first[s+1]] {
				o.Due, o.Slots = append(o.Due, t), append(o.Slots, Slot(s))
			}
		}
	}
	order(o.Due, o.Slots)
	if spend > 0 && weight > 0 {
		each := total / spend
		for s := range facts {
			if f := &facts[s]; plannable(f) {
				x := each * f.Est.Rate()
				o.Uniform += float64(f.Weighed()) * -math.Expm1(-x) / x / weight
			}
		}
	}
	return o, nil
}

// Spent is the capacity that updates of the last ticks show: busy threads, at least.
func Spent(now Tick, facts []Facts, last Tick) float64 {
	costs := price{p: Params{CostBase: 2}, mean: meanService(facts)}
	sum := 0.
	for i := range facts {
		if f := &facts[i]; f.Updated > 0 && now-f.Updated < last {
			sum += costs.cost(f)
		}
	}
	return sum / float64(last)
}

func meanService(facts []Facts) float64 {
	sum, n := 0., 0.
	for i := range facts {
		if s := float64(facts[i].Service.Float()); s > 0 {
			sum += s
			n++
		}
	}
	if n == 0 {
		return 10 // nothing was ever crawled: ten minutes, until there is better
	}
	return sum / n
}

// order sorts due times, and the slots with them.
func order(due []Tick, slots []Slot) {
	sort.Sort(byDue{due, slots})
}

type byDue struct {
	due   []Tick
	slots []Slot
}

func (b byDue) Len() int { return len(b.due) }
func (b byDue) Less(i, j int) bool {
	return b.due[i] < b.due[j] || b.due[i] == b.due[j] && b.slots[i] < b.slots[j]
}
func (b byDue) Swap(i, j int) {
	b.due[i], b.due[j] = b.due[j], b.due[i]
	b.slots[i], b.slots[j] = b.slots[j], b.slots[i]
}
