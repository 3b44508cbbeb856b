package recrawl

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"shoal/recrawl/allocate"
)

// optimal crawls by the plan of package allocate: every planning interval it takes the capacity that updates have shown, gives each channel its best
// frequency, and lays the crawls of the coming interval out as a timetable whose times are the channels' due times.
//
// A crawl costs its channel's thread time, as in price; so the crawls bought are those of the greatest gain for their cost, and capacity is cost, not count.
// Frequencies are computed over a longer span of T ticks, in which a channel crawled x times at even distances is crawled every T/(x+1): so the crawls to
// give out are capacity*T less one for every channel, and no channel waits longer than T.
//
// What the plan promises allows for how unevenly the swarm has kept its intervals so far, and for how much more or less visits have found than the estimates led to expect.
//
// Between plans the machine of price goes on: a task's value is 1 when it is due and grows with its lateness in units of its interval, so that a swarm that
// turns out smaller than planned stretches all intervals alike, and one that turns out larger shortens them; the window keeps waits at their target.
type optimal struct {
	*price
	started Tick
	asked   measured
	updates int64   // since the last plan
	spent   float64 // their cost
	plan    *optimalPlan
	logs    histories
	kept    [keptGaps]float32 // gaps between updates over the interval planned, the latest
	keptN   int
	found   [keptVisits]float32 // of the latest visits, changes expected by the estimate of then; below 0 where none was found
	foundN  int

	restored float64 // capacity of the last plan before a restart; 0: none
	limits   limits
}

// limits hold for all strategies; the plan keeps them too, so that it does not promise what the scheduler will not do.
type limits struct {
	cap   float64 // of the change rate; 0: none
	least Tick    // interval
}

// most is how many crawls in a span of that many ticks the limits allow a channel; the interval that goes with it may be longer than planned.
func (l limits) most(rate, span float64) (crawls int32, interval float64) {
	interval = max(float64(l.least), 1)
	if l.cap > 0 {
		interval = max(interval, 1/(l.cap*rate))
	}
	n := math.Floor(span/interval*(1+1e-9)) - 1 // x crawls are at intervals of span/(x+1)
	if n < 1 {
		return allocate.Never, interval
	}
	return int32(min(n, allocate.MaxCrawls)), interval
}

// Limits implements Limited.
func (o *optimal) Limits(capRate float64, minTicks Tick) { o.limits = limits{capRate, minTicks} }

// Day implements Recaller.
func (o *optimal) Day() float64 { return o.p.PlanEvery }

// Recall implements Recaller.
func (o *optimal) Recall(s Slot, f *Facts, history []byte, c Chosen) {
	o.logs.day = o.p.PlanEvery
	o.logs.recall(s, f, history, c)
}

// How many gaps tell how well intervals are kept, and how many visits how good the estimates were.
const (
	keptGaps   = 512
	keptVisits = 4096
)

// measured is what a plan starts from, taken on the loop.
type measured struct {
	since   Tick
	updates int64
	spent   float64
	mean    float64 // service of channels that have none of their own
	dear    float64
	life    float64
	kept    []float64
	bias    float64

	restored float64
	models   map[Slot]allocate.Model
	limits   limits
}

// planInput is what a plan needs beside the facts.
type planInput struct {
	models map[Slot]allocate.Model // of channels that are not Poisson's
	cost   func(*Facts) float64
	spend  float64 // what the swarm has to spend a tick
	every  Tick
	kept   []float64 // how intervals were kept
	bias   float64   // how much faster than estimated channels change; 0: not known, as estimated
	limits limits
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

const (
	planSpan  = 7 // planning intervals in a span T
	firstPlan = 4 // the first plan comes after this part of a planning interval
)

func newOptimal(p Params) *optimal {
	p.PlanEvery = or(p.PlanEvery, PlanDay)
	return &optimal{price: newPrice("optimal", p, ageIndex{})}
}

func (o *optimal) Start(now Tick, g *Groups) {
	o.price.Start(now, g)
	o.started = now
	o.asked.since = now
}

func (o *optimal) Observe(now Tick, s Slot, f *Facts, e Event) {
	o.price.Observe(now, s, f, e)
	switch e.Kind {
	case Updated:
		o.updates++
		o.spent += o.cost(f)
		if o.plan != nil && f.Updated > o.plan.at {
			if v, _ := o.interval(s, f); v > 0 {
				o.kept[o.keptN%keptGaps] = float32(float64(now-f.Updated) / v)
				o.keptN++
			}
		}
		if f.Updated > 0 && f.Flags&Known == 0 {
			x := float32(f.Est.Rate() * float64(now-f.Updated))
			if !e.Changed {
				x = -x
			}
			o.found[o.foundN%keptVisits] = x
			o.foundN++
			o.logs.add(now, s, float64(now-f.Updated), e.Changed, o.p.PlanEvery)
		}
	case Removed:
		o.logs.forget(s)
	}
}

// interval is the planned interval of a slot; without a plan, and for slots newer than it, that of equal shares of what is known of capacity.
func (o *optimal) interval(s Slot, f *Facts) (ticks float64, fixed bool) {
	if o.plan != nil && int(s) < len(o.plan.interval) && o.plan.interval[s] != 0 {
		v := float64(o.plan.interval[s])
		return math.Abs(v), v < 0
	}
	return 1 / f.Est.Rate(), false
}

// due is when the slot should be crawled next.
func (o *optimal) due(s Slot, f *Facts, interval float64, fixed bool) Tick {
	last := f.Updated
	if f.Out > 0 || last == 0 {
		last = f.Submitted
	}
	if last == 0 {
		return 0 // never asked for: at once
	}
	soon := last + wholeTicks(interval)
	if o.plan == nil || int(s)+1 >= len(o.plan.first) {
		return soon
	}
	from := last + Tick(interval/2)
	if fixed {
		from = last
	}
	for _, t := range o.plan.due[o.plan.first[s]:o.plan.first[s+1]] {
		if t > from {
			if fixed {
				return t
			}
			return min(t, last+wholeTicks(1.5*interval))
		}
	}
	return soon
}

func (o *optimal) Rank(now, _ Tick, s Slot, f *Facts) (float32, Tick) {
	interval, fixed := o.interval(s, f)
	due := o.due(s, f, interval, fixed)
	if f.Signalled > 0 && f.Out == 0 {
		due = min(due, f.Signalled)
	}
	value := max(1+float64(now-due)/interval, 0)
	if due == 0 {
		value = 1e6
	}
	want := takeAbove * o.phi
	if fixed { // before its update instant a crawl finds nothing
		want = max(want, 1)
	}
	if value >= want {
		return float32(value), now
	}
	if !fixed && value < lookAbove*o.phi {
		want = lookAbove * o.phi
	}
	again := float64(due) + (want-1)*interval
	return float32(value), max(now+1, Tick(min(math.Ceil(again), float64(Far/2))))
}

// AppendState keeps the capacity, so that the first plan after a restart can be made at once. Visits are learnt anew.
func (o *optimal) AppendState(b []byte) []byte {
	spend := o.restored
	if o.plan != nil {
		spend = o.plan.Summary.Spend
	}
	return appendFloats(o.price.AppendState(b), []float64{spend, o.life})
}

func (o *optimal) Restore(b []byte) error {
	more, err := o.restoreWith(b, 2)
	if err != nil {
		return err
	}
	o.restored, o.life = more[0], more[1]
	return nil
}

// PlanDue also takes the measurements that Plan will read.
func (o *optimal) PlanDue(now Tick) bool {
	wait := wholeTicks(o.p.PlanEvery)
	if o.plan == nil {
		wait = max(wait/firstPlan, 1)
	}
	if o.restored == 0 && (now-o.asked.since < wait || o.updates == 0) {
		return false
	}
	o.asked.restored = o.restored
	o.asked.updates, o.asked.spent, o.asked.mean, o.asked.dear, o.asked.life = o.updates, o.spent, o.mean, o.dear, o.life
	o.asked.kept = o.asked.kept[:0]
	for _, g := range o.kept[:min(o.keptN, keptGaps)] {
		o.asked.kept = append(o.asked.kept, float64(g))
	}
	o.asked.bias = rateBias(o.found[:min(o.foundN, keptVisits)])
	o.asked.models, o.asked.limits = o.logs.models(), o.limits
	return true
}

func (o *optimal) Plan(ctx context.Context, now Tick, facts []Facts) (adopt func(), err error) {
	elapsed := float64(now - o.asked.since)
	capacity := o.asked.spent / max(elapsed, 1)
	if o.plan != nil { // the swarm changes more slowly than chance
		capacity = .5*capacity + .5*o.plan.Summary.Spend
	}
	if o.asked.restored > 0 {
		capacity = o.asked.restored
	}
	costs := price{p: o.p, mean: o.asked.mean, dear: o.asked.dear, life: o.asked.life}
	p, err := planOptimal(ctx, now, facts, planInput{o.asked.models, costs.cost, capacity, wholeTicks(o.p.PlanEvery), o.asked.kept, o.asked.bias, o.asked.limits})
	if err != nil {
		return nil, err
	}
	return func() {
		o.plan = p
		o.asked = measured{since: now}
		o.updates, o.spent, o.restored = 0, 0, 0
	}, nil
}

// Summary is the plan in force; false before the first.
func (o *optimal) Summary() (PlanSummary, bool) {
	if o.plan == nil {
		return PlanSummary{}, false
	}
	return o.plan.Summary, true
}

// Report implements Reporter.
func (o *optimal) Report() (PlanReport, bool) {
	if o.plan == nil {
		return PlanReport{}, false
	}
	m := &o.plan.Summary
	return PlanReport{At: m.At, Next: o.asked.since + wholeTicks(o.p.PlanEvery), Channels: m.Channels, Capacity: m.Spend, Updates: m.Capacity, Freshness: m.Freshness, Plain: m.Plain,
		Price: m.Price, Moves: m.Cost, AtCap: m.AtCap, Models: m.Models}, true
}

// Explain says which update model a channel was given, and why, and at what interval the plan has it crawled.
func (o *optimal) Explain(s Slot, f *Facts) string {
	why := o.logs.explain(s)
	if why == "" {
		why = fmt.Sprintf("Poisson: one change in %.4g ticks by estimate; too few visits to tell more", f.Est.Interval())
	}
	if o.plan != nil && int(s) < len(o.plan.interval) && o.plan.interval[s] != 0 {
		why += fmt.Sprintf("; planned every %.4g ticks", math.Abs(float64(o.plan.interval[s])))
	}
	return why
}

// planOptimal is the plan itself.
func planOptimal(ctx context.Context, now Tick, facts []Facts, in planInput) (*optimalPlan, error) {
	cost, spend, every := in.cost, in.spend, in.every
	n, dear := 0, 0.
	for i := range facts {
		if plannable(&facts[i]) {
			n++
			dear += cost(&facts[i])
		}
	}
	plan := &optimalPlan{at: now, interval: make([]float32, len(facts)), first: make([]uint32, len(facts)+1)}
	plan.Summary = PlanSummary{At: now, Spend: spend, Channels: n, Models: map[string]int{}}
	if n == 0 || !(spend > 0) {
		return plan, nil
	}
	span := planSpan * float64(every)
	periodic := span*spend > 2*dear
	span = max(span, 2*dear/spend)
	pages, slots, costs := make([]allocate.Page, 0, n), make([]Slot, 0, n), make([]float64, 0, n)
	budget := spend * span
	for i := range facts {
		f := &facts[i]
		if !plannable(f) {
			continue
		}
		m, err := allocate.Poisson(f.Est.Rate())
		if err != nil {
			return nil, fmt.Errorf("plan slot %d: %w", i, err)
		}
		if own, ok := in.models[Slot(i)]; ok {
			if own.Kind() != allocate.QuasiKind {
				m = own
			} else if week, err := own.Repeat(float64(every), float64(now%every), planSpan); err == nil && periodic {
				m = week
			}
		}
		c := cost(f)
		if m.Kind() != allocate.QuasiKind {
			budget -= c
		}
		most, _ := in.limits.most(f.Est.Rate(), span)
		pages, slots, costs = append(pages, allocate.Page{Model: m, Weight: float64(f.Weighed()) / c, Max: most}), append(slots, Slot(i)), append(costs, c)
	}
	res, err := spendOn(ctx, pages, costs, span, max(budget, 0))
	if err != nil {
		return nil, err
	}
	weight, fresh, plain, crawls := 0., 0., 0., 0.
	for k := range pages {
		w := float64(facts[slots[k]].Weighed())
		_, least := in.limits.most(facts[slots[k]].Est.Rate(), span)
		iv := max(span/float64(res.X[k]+1), least)
		if res.X[k] == max(pages[k].Max, 0) {
			plan.Summary.AtCap++
		}
		var a float64
		if pages[k].Model.Kind() == allocate.QuasiKind {
			iv = -span / float64(max(res.X[k], 1))
			a = pages[k].Model.Staleness(int(res.X[k]), span)
		} else {
			t := iv
			if in.bias > 0 && facts[slots[k]].Flags&Known == 0 {
				t *= in.bias
			}
			a = stretched(pages[k].Model, t, in.kept)
		}
		weight += w
		fresh += w * (1 - a)
		plain += 1 - a
		crawls += 1 / math.Abs(iv)
		plan.interval[slots[k]] = float32(iv)
		plan.Summary.Models[pages[k].Model.Kind().String()]++
	}
	plan.Summary.Capacity = crawls
	plan.Summary.Freshness = fresh / weight
	plan.Summary.Plain = plain / float64(n)
	plan.Summary.Price = res.Price
	return plan, plan.timetable(ctx, now, facts, pages, slots, res.X, span, crawls, every)
}

// spendOn buys crawls in order of gain for their cost until the budget is used: the weights are already per cost, so for any number of crawls Solve gives
// the best ones, and the number is halved in upon.
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

// rateBias is the factor on all estimated rates by which the changes that visits were to find add up to those that they found: a prior slower than most channels, or visits so
// far apart that nearly all find a change, leave estimates too low together, and a plan that believed them would promise too much. With few visits it is drawn to 1.
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

// biasDoubt is how many visits without a bias those that were made are weighed against.
const biasDoubt = 50

func plannable(f *Facts) bool { return f.Est.valid() && f.Flags&(Paused|gone) == 0 }

// timetable lays out the crawls of the next interval. The swarm counts as one crawler with as many slots as it has capacity.
func (plan *optimalPlan) timetable(ctx context.Context, now Tick, facts []Facts, pages []allocate.Page, slots []Slot, x []int32, span, capacity float64, every Tick) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	horizon := float64(every)
	var ideal []float64
	var release []bool
	var owner []Slot
	for k, s := range slots {
		f := &facts[s]
		if pages[k].Model.Kind() == allocate.QuasiKind {
			for _, t := range pages[k].Model.Instants(int(x[k]), span) {
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
		for i := range release {
			release[i] = false
		}
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

// Predicted is the time-average freshness of a channel that the plan in force expects.
func (o *optimal) Predicted() float64 {
	if o.plan == nil {
		return 0
	}
	return o.plan.Summary.Plain
}
