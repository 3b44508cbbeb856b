package recrawl

import (
	"context"
	"encoding/binary"
	"math"
	"sort"

	"shoal/recrawl/allocate"
)

// Outline is what strategy optimal would plan for given facts and capacity, so that an operator sees it beforehand.
type Outline struct {
	PlanSummary
	Interval []float64 // planned ticks between crawls, by slot; 0: not planned
	Due      []Tick    // crawls of the coming planning interval, in order
	Slots    []Slot    // of these crawls
	Uniform  float64   // weighted freshness of equal intervals for all, within the same limits and for the same spending
}

// Ahead is what an Outline is made for.
type Ahead struct {
	Spend  float64                 // capacity, in busy threads
	Every  Tick                    // the planning interval
	Models map[Slot]allocate.Model // chosen from channels' histories; others are Poisson's
	Cap    float64                 // at most so many times the change rate; 0: no limit
	Least  Tick                    // and at least so many ticks apart
}

// NewOutline makes the plan.
func NewOutline(ctx context.Context, now Tick, facts []Facts, a Ahead) (Outline, error) {
	spend := a.Spend
	prices := costs{p: Params{CostBase: 2}, mean: meanService(facts)}
	in := planInput{models: a.Models, cost: prices.cost, spend: spend, every: a.Every, limits: Limits{a.Cap, max(a.Least, 1)}}
	p, err := planOptimal(ctx, now, facts, in)
	if err != nil {
		return Outline{}, err
	}
	o := Outline{PlanSummary: p.Summary, Interval: make([]float64, len(facts))}
	total, weight := 0., 0.
	for s, iv := range p.interval {
		o.Interval[s] = math.Abs(float64(iv))
		if plannable(&facts[s]) {
			total += prices.cost(&facts[s])
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
				m, ok := a.Models[Slot(s)]
				if !ok || m.Kind() == allocate.QuasiKind { // equal intervals do not meet its instants
					if m, err = allocate.Poisson(f.Est.Rate()); err != nil {
						return Outline{}, err
					}
				}
				_, least := in.limits.most(f.Est.Rate(), 1)
				o.Uniform += float64(f.Weighed()) * (1 - m.Staleness(0, max(each, least))) / weight
			}
		}
	}
	return o, nil
}

// Spent is the capacity that the updates of the last ticks show: at least so many threads were busy. histories, by slot, tell of updates before
// a channel's last; nil: they are unknown.
func Spent(now Tick, facts []Facts, histories [][]byte, last Tick) float64 {
	prices := costs{p: Params{CostBase: 2}, mean: meanService(facts)}
	sum := 0.
	for i := range facts {
		var history []byte
		if i < len(histories) {
			history = histories[i]
		}
		sum += float64(visitsSince(history, &facts[i], now-last)) * prices.cost(&facts[i])
	}
	return sum / float64(last)
}

// visitsSince counts a channel's updates after a tick.
func visitsSince(history []byte, f *Facts, since Tick) int {
	if f.Updated == 0 || f.Updated <= since {
		return 0
	}
	n, at := 1, float64(f.Updated)
	for k := len(history)/2 - 1; k >= 0; k-- {
		if at -= visitOf(binary.LittleEndian.Uint16(history[2*k:])).Gap; at <= float64(since) {
			break
		}
		n++
	}
	return n
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
