package recrawl

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"shoal/recrawl/allocate"
)

// planInput is what strategy optimal needs for a plan beside the facts.
type planInput struct {
	models map[Slot]allocate.Model // of channels that are not Poisson's
	cost   func(*Facts) float64
	spend  float64 // what the swarm has to spend a tick
	every  Tick
	kept   []float64 // how intervals were kept
	bias   float64   // how much faster than estimated channels change; 0: not known, as estimated
	limits Limits
}

// optimalPlan is what a plan gives: the interval of every slot and its times until the next plan.
type optimalPlan struct {
	at       Tick
	interval []float32 // ticks; below 0: the slot is quasi-deterministic and its times are not to be moved
	first    []uint32  // first[s]..first[s+1] are the slot's times in due
	due      []Tick
	Summary  PlanSummary
}

// PlanSummary is what an operator may want to know of a plan.
type PlanSummary struct {
	At        Tick
	Capacity  float64 // updates a tick that the plan asks for
	Spend     float64 // their cost a tick, in thread ticks: the capacity that was measured
	Channels  int
	Freshness float64 // predicted time-average freshness of a channel, by weight
	Plain     float64 // the same, every channel counting alike
	Price     float64 // gain in weighted freshness of the last crawl that was given out
	Cost      float64 // mean ticks that the timetable moves a crawl
	AtCap     int     // channels that get all that the cap allows
	Models    map[string]int
}

const planSpan = 7 // planning intervals in a span T

// most is how many crawls in a span of that many ticks the limits allow a channel, so that a plan does not promise what the scheduler will
// not do. The interval that goes with it may be longer than planned.
func (l Limits) most(rate, span float64) (crawls int32, interval float64) {
	interval = max(float64(l.Least), 1)
	if l.Cap > 0 {
		interval = max(interval, 1/(l.Cap*rate))
	}
	n := math.Floor(span/interval*(1+1e-9)) - 1 // x crawls are at intervals of span/(x+1)
	if n < 1 {
		return allocate.Never, interval
	}
	return int32(min(n, allocate.MaxCrawls)), interval
}

// planOptimal makes a plan: what may be crawled and what it costs, what to buy of it, what that promises, and when.
func planOptimal(ctx context.Context, now Tick, facts []Facts, in planInput) (*optimalPlan, error) {
	plan := &optimalPlan{at: now, interval: make([]float32, len(facts)), first: make([]uint32, len(facts)+1)}
	offer, err := in.offer(now, facts)
	if err != nil {
		return nil, err
	}
	plan.Summary = PlanSummary{At: now, Spend: in.spend, Channels: len(offer.slots), Models: map[string]int{}}
	if len(offer.slots) == 0 || !(in.spend > 0) {
		return plan, nil
	}
	res, err := spendOn(ctx, offer.pages, offer.costs, offer.span, max(offer.budget, 0))
	if err != nil {
		return nil, err
	}
	plan.promise(facts, in, offer, res)
	return plan, plan.timetable(ctx, now, facts, offer, res.X, in.every)
}

// offer is what a plan chooses from: the channels that may be crawled, with their costs, and the budget.
type offer struct {
	pages  []allocate.Page
	slots  []Slot // whose the pages are, ascending
	costs  []float64
	span   float64 // T, in ticks
	budget float64 // thread ticks in the span, less one crawl of every channel
}

func (in *planInput) offer(now Tick, facts []Facts) (o offer, err error) {
	n, dear := 0, 0.
	for i := range facts {
		if plannable(&facts[i]) {
			n++
			dear += in.cost(&facts[i])
		}
	}
	o.span = planSpan * float64(in.every)
	periodic := o.span*in.spend > 2*dear
	o.span = max(o.span, 2*dear/in.spend)
	o.budget = in.spend * o.span
	o.pages, o.slots, o.costs = make([]allocate.Page, 0, n), make([]Slot, 0, n), make([]float64, 0, n)
	for i := range facts {
		f := &facts[i]
		if !plannable(f) {
			continue
		}
		m, err := allocate.Poisson(f.Est.Rate())
		if err != nil {
			return o, fmt.Errorf("plan slot %d: %w", i, err)
		}
		if own, ok := in.models[Slot(i)]; ok {
			if own.Kind() != allocate.QuasiKind {
				m = own
			} else if week, err := own.Repeat(float64(in.every), float64(now%in.every), planSpan); err == nil && periodic {
				m = week
			}
		}
		c := in.cost(f)
		if m.Kind() != allocate.QuasiKind {
			o.budget -= c
		}
		most, _ := in.limits.most(f.Est.Rate(), o.span)
		o.pages = append(o.pages, allocate.Page{Model: m, Weight: float64(f.Weighed()) / c, Max: most})
		o.slots, o.costs = append(o.slots, Slot(i)), append(o.costs, c)
	}
	return o, nil
}

// promise sets the intervals that the crawls bought make, and the freshness that follows.
func (plan *optimalPlan) promise(facts []Facts, in planInput, o offer, bought allocate.Result) {
	weight, fresh, plain, crawls := 0., 0., 0., 0.
	for k, s := range o.slots {
		f, page, x := &facts[s], &o.pages[k], bought.X[k]
		_, least := in.limits.most(f.Est.Rate(), o.span)
		iv := max(o.span/float64(x+1), least)
		if x == max(page.Max, 0) {
			plan.Summary.AtCap++
		}
		var stale float64
		if page.Model.Kind() == allocate.QuasiKind {
			iv = -o.span / float64(max(x, 1))
			stale = page.Model.Staleness(int(x), o.span)
		} else {
			t := iv
			if in.bias > 0 && f.Flags&Known == 0 {
				t *= in.bias
			}
			stale = stretched(page.Model, t, in.kept)
		}
		w := float64(f.Weighed())
		weight += w
		fresh += w * (1 - stale)
		plain += 1 - stale
		crawls += 1 / math.Abs(iv)
		plan.interval[s] = float32(iv)
		plan.Summary.Models[page.Model.Kind().String()]++
	}
	plan.Summary.Capacity = crawls
	plan.Summary.Freshness = fresh / weight
	plan.Summary.Plain = plain / float64(len(o.slots))
	plan.Summary.Price = bought.Price
}

// spendOn buys crawls in order of gain for their cost until the budget is used. The weights are already per cost, so Solve gives the best
// crawls for any number of them; a search finds the number that fits the budget.
func spendOn(ctx context.Context, pages []allocate.Page, costs []float64, span, budget float64) (res allocate.Result, err error) {
	cheapest := math.Inf(1)
	for _, c := range costs {
		cheapest = min(cheapest, c)
	}
	most := 0. // a channel at its limit takes no more
	for i := range pages {
		if m := pages[i].Max; m == 0 {
			most = math.Inf(1)
		} else {
			most += float64(max(m, 0))
		}
	}
	lo, hi := int64(0), int64(min(budget/cheapest, most, 1e15))
	total := 0.
	for _, c := range costs {
		total += c
	}
	try := min(int64(budget/total*float64(len(costs))), hi) // as if all costs were alike
	for step := 0; ; step++ {
		if err := ctx.Err(); err != nil {
			return res, err
		}
		r, err := allocate.Solve(allocate.Problem{Pages: pages, Span: span, R: try, Cores: max(runtime.GOMAXPROCS(0)/2, 1)})
		if err != nil {
			return res, err
		}
		used := 0.
		for k, x := range r.X {
			used += float64(x) * costs[k]
		}
		if used <= budget {
			lo, res = try, r
		} else {
			hi = try - 1
		}
		if lo >= hi || step > 40 || used <= budget && used > .995*budget {
			if res.X == nil { // not one crawl fits
				res.X = make([]int32, len(pages))
			}
			return res, nil
		}
		guess := int64(float64(try) * budget / max(used, 1e-9)) // costs are nearly proportional to crawls here
		if step%3 == 2 || guess <= lo || guess >= hi {
			guess = lo + (hi-lo+1)/2
		}
		try = guess
	}
}

// stretched is the staleness of a page crawled at intervals that are planned as iv and kept as they have been.
func stretched(m allocate.Model, iv float64, kept []float64) float64 {
	if len(kept) < 64 {
		return m.Staleness(0, iv)
	}
	sum, stale := 0., 0.
	for k := 0; k < len(kept); k += max(len(kept)/64, 1) {
		g := max(kept[k], 1e-3) * iv
		sum += g
		stale += g * m.Staleness(0, g)
	}
	return stale / sum
}

// rateBias is the factor on all estimated rates that makes the changes expected of visits add up to those found. A prior slower than most
// channels, or visits so far apart that nearly all find a change, leave all estimates too low, and a plan that believed them would promise
// too much. With few visits the factor is drawn to 1.
func rateBias(found []float32) float64 {
	n, changed := 0., 0.
	for _, x := range found {
		n++
		if x > 0 {
			changed++
		}
	}
	if changed == 0 || changed == n {
		return 1
	}
	lo, hi := math.Log(1./8), math.Log(8.)
	for range 40 {
		mid := (lo + hi) / 2
		k, sum := math.Exp(mid), 0.
		for _, x := range found {
			sum -= math.Expm1(-k * math.Abs(float64(x)))
		}
		if sum < changed {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Exp((lo + hi) / 2 * n / (n + biasDoubt))
}

// biasDoubt is how many imagined visits without a bias are weighed against the real ones.
const biasDoubt = 50

// timetable lays out the crawls of the next interval. The swarm counts as one crawler with as many slots as it has capacity.
func (plan *optimalPlan) timetable(ctx context.Context, now Tick, facts []Facts, o offer, x []int32, every Tick) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	horizon, capacity := float64(every), plan.Summary.Capacity
	var ideal []float64
	var release []bool
	var owner []Slot
	for k, s := range o.slots {
		f := &facts[s]
		if model := o.pages[k].Model; model.Kind() == allocate.QuasiKind {
			for _, t := range model.Instants(int(x[k]), o.span) {
				if t < horizon {
					ideal, release, owner = append(ideal, t), append(release, true), append(owner, s)
				}
			}
			continue
		}
		interval := float64(plan.interval[s])
		last := f.Updated
		if last == 0 || f.Out > 0 {
			last = f.Submitted
		}
		for t := max(float64(last-now)+interval, 0); t < horizon; t += interval {
			ideal, release, owner = append(ideal, t), append(release, false), append(owner, s)
		}
	}
	room := max(int(capacity*horizon), len(ideal)+len(ideal)/50+1)
	tt, err := allocate.Timetable(allocate.TimetableProblem{Ideal: ideal, Release: release, Slots: []int{room}, Span: horizon})
	if err != nil { // update instants at the very end of the interval: they come first in the next
		if tt, err = allocate.Timetable(allocate.TimetableProblem{Ideal: ideal, Slots: []int{room}, Span: horizon}); err != nil {
			return err
		}
	}
	if len(ideal) > 0 {
		plan.Summary.Cost = tt.Cost / float64(len(ideal))
	}
	plan.due = make([]Tick, len(ideal))
	k := 0
	for i := range ideal { // owners ascend
		for ; k <= int(owner[i]); k++ {
			plan.first[k] = uint32(i)
		}
		_, _, t := tt.At(i)
		plan.due[i] = now + 1 + Tick(t)
	}
	for ; k < len(plan.first); k++ {
		plan.first[k] = uint32(len(ideal))
	}
	return nil
}
