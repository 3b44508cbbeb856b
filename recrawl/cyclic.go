package recrawl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"shoal/recrawl/cycle"
)

// cyclic is strategy cycle: channels in buckets by one byte of change rate, a cycle of periods planned by package cycle from measured rates, costs and
// arrivals, with the paper's Strategy 2 in the first cycles, to drive obsolete channels down, and 3 or 1 afterwards. In each period the solution's share of every bucket, the
// channels longest not updated first, and of the channels never crawled is spread over the period as due times.
//
// Channels that change faster than a period are served by price, which also keeps the window on tasks out. A period that ends without a new plan falls back to
// price too.
type cyclic struct {
	*price
	asked   cycleAsked
	added   int64
	spent   float64 // cost of the tasks submitted for slow channels since the last plan
	fast    int64   // tasks submitted for the others
	ticks   int     // calls of Taken since, and those that wanted more than there was room for
	short   int
	plan    *cyclePlan
	periods int
	planned bool // the last task taken was by plan, not by price

	restored []float64 // capacity, arrivals, cycles and life before a restart
}

type cycleAsked struct {
	since Tick
	added int64
	fast  int64
	spent float64
	busy  bool // the swarm could not take all that was due
	mean  float64
	dear  float64
	life  float64
}

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
	channels int                 // that the model holds
	Fast     float64             // tasks of channels that change faster than it, expected
	strategy int                 // the paper's, that the cycle follows
	Gap      float64             // of the cycle's plan to its bound
}

// firstCycles is how many cycles follow Strategy 2; lastWeight is Strategy 3's weight of the last period.
const (
	firstCycles = 2
	lastWeight  = .8
	growth      = 1.15 // of capacity after a period in which all that was due was taken
)

func newCyclic(p Params) *cyclic {
	p.PlanEvery = or(p.PlanEvery, PlanDay)
	if p.Periods == 0 {
		p.Periods = 14
	}
	return &cyclic{price: newPrice("cycle", p, freshIndex{}), periods: p.Periods}
}

func (c *cyclic) Start(now Tick, g *Groups) {
	c.price.Start(now, g)
	c.asked.since = now
}

func (c *cyclic) Observe(now Tick, s Slot, f *Facts, e Event) {
	c.price.Observe(now, s, f, e)
	switch e.Kind {
	case Added:
		if f.Updated == 0 {
			c.added++
		}
	case Submitted:
		if c.planned = c.slow(f); c.planned {
			c.spent += c.cost(f)
		} else {
			c.fast++
		}
	}
}

// slow says whether a channel belongs to the model.
func (c *cyclic) slow(f *Facts) bool { return f.Est.Rate()*c.p.PlanEvery <= 1 }

func (c *cyclic) Rank(now, least Tick, s Slot, f *Facts) (float32, Tick) {
	if !c.slow(f) || c.plan == nil || int(s) >= len(c.plan.due) || now > c.plan.to+(c.plan.to-c.plan.from)/2 {
		return c.price.Rank(now, least, s, f)
	}
	due := c.plan.due[s]
	if f.Signalled > 0 && (due == 0 || f.Signalled < due) && f.Out == 0 {
		due = f.Signalled
	}
	if due == 0 || f.Submitted >= due || f.Out > 0 {
		return 0, max(now, c.plan.to) + 1
	}
	value := max(1.2*c.phi, 1e-6) * (1 + max(float64(now-due), 0)/c.p.PlanEvery) // beside the fast ones, which outbid it when they must
	return float32(value), max(due, now)
}

func (c *cyclic) Taken(now Tick, n int, last float32, short bool) {
	c.ticks++
	if short {
		c.short++
	}
	if c.planned { // which says nothing of the price
		last = float32(c.phi)
	}
	c.price.Taken(now, n, last, short)
}

// AppendState keeps capacity, arrivals and how many cycles there were; a new cycle begins after a restart.
func (c *cyclic) AppendState(b []byte) []byte {
	v := []float64{0, 0, 0, c.life}
	if p := c.plan; p != nil {
		v = []float64{p.capacity, p.arrive, float64(p.cycles), c.life}
	} else if c.restored != nil {
		v = c.restored
	}
	return appendFloats(c.price.AppendState(b), v)
}

func (c *cyclic) Restore(b []byte) error {
	more, err := c.restoreWith(b, 4)
	if err != nil {
		return err
	}
	c.life = more[3]
	if more[0] > 0 {
		c.restored = more
	}
	return nil
}

// PlanDue also takes the measurements that Plan will read.
func (c *cyclic) PlanDue(now Tick) bool {
	wait := wholeTicks(c.p.PlanEvery)
	if now-c.asked.since < wait && c.restored == nil {
		return false
	}
	c.asked.added, c.asked.fast, c.asked.spent, c.asked.mean, c.asked.dear, c.asked.life = c.added, c.fast, c.spent, c.mean, c.dear, c.life
	c.asked.busy = c.short*5 > c.ticks
	return true
}

func (c *cyclic) Plan(ctx context.Context, now Tick, facts []Facts) (adopt func(), err error) {
	elapsed := max(float64(now-c.asked.since), 1)
	next := &cyclePlan{from: now, to: now + wholeTicks(c.p.PlanEvery), due: make([]Tick, len(facts)), capacity: c.asked.spent / elapsed,
		arrive: float64(c.asked.added) / elapsed, Fast: float64(c.asked.fast) / elapsed * c.p.PlanEvery}
	costs := price{p: c.p, mean: c.asked.mean, dear: c.asked.dear, life: c.asked.life}
	if c.plan != nil {
		// What the swarm took is its capacity if it was offered more than that; if not, it may have more.
		if c.asked.busy {
			next.capacity = .5*next.capacity + .5*c.plan.capacity
		} else {
			next.capacity = max(next.capacity, c.plan.capacity) * growth
		}
		next.arrive = .9*c.plan.arrive + .1*next.arrive
		next.period, next.cycles = c.plan.period+1, c.plan.cycles
		next.share, next.fresh, next.Gap, next.strategy = c.plan.share, c.plan.fresh, c.plan.Gap, c.plan.strategy
	} else {
		next.arrive = 0 // the first ones were all there were
		next.capacity = 0
		if r := c.restored; r != nil {
			next.capacity, next.arrive, next.cycles = r[0], r[1], int(r[2])
		}
	}
	all := 0.
	for i := range facts {
		if plannable(&facts[i]) && c.slow(&facts[i]) {
			next.channels++
			all += costs.cost(&facts[i])
		}
	}
	all /= c.p.PlanEvery
	if next.capacity == 0 || next.capacity > all { // everything in every period is the most there can be to do
		next.capacity = all
	}
	if c.plan == nil || next.period >= c.periods {
		if c.plan != nil {
			next.cycles++
		}
		next.period = 0
		if err := next.solve(now, facts, c, &costs); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	next.spread(facts, c)
	return func() {
		c.plan, c.restored = next, nil
		c.asked = cycleAsked{since: now}
		c.added, c.fast, c.spent, c.ticks, c.short = 0, 0, 0, 0, 0
	}, nil
}

// solve plans a cycle.
func (p *cyclePlan) solve(now Tick, facts []Facts, c *cyclic, costs *price) error {
	type sums struct{ n, obsolete, rate, cost, weight float64 }
	var by [cycle.MaxBuckets]sums
	fresh, freshCost, known, rates := 0., 0., 0., 0.
	for i := range facts {
		f := &facts[i]
		if !plannable(f) || !c.slow(f) {
			continue
		}
		cost := costs.cost(f)
		if f.Updated == 0 {
			fresh++
			freshCost += cost
			continue
		}
		b := &by[f.Bucket]
		known++
		rates += f.Est.Rate()
		b.n++
		b.rate += f.Est.Rate()
		b.obsolete += -math.Expm1(-f.Est.Rate() * float64(now-f.Updated))
		b.cost += cost
		b.weight += float64(f.Weighed())
	}
	m := &cycle.Model{Periods: c.periods, Capacity: []float64{p.capacity * c.p.PlanEvery}, New: fresh, Arrive: p.arrive * c.p.PlanEvery, NewCost: []float64{max(costs.mean+c.p.CostBase, 1)}}
	if fresh > 0 {
		m.NewCost[0] = freshCost / fresh
	}
	var w []float64
	switch often := rates * c.p.PlanEvery * float64(c.periods); {
	case p.cycles < firstCycles:
		p.strategy, w = 2, cycle.Strategy2(c.periods)
	case often > known: // the mean channel changes within a cycle, so that its end says little of the rest
		p.strategy, w = 1, cycle.Strategy1(c.periods)
	default:
		p.strategy, w = 3, cycle.Strategy3(c.periods, lastWeight)
	}
	m.NewWeight = w
	var of []uint8
	for k := range by {
		b := by[k]
		if b.n == 0 {
			continue
		}
		mean := b.weight / b.n
		weights := make([]float64, len(w))
		for t := range w {
			weights[t] = w[t] * mean
		}
		of = append(of, uint8(k))
		m.Buckets = append(m.Buckets, cycle.Bucket{Pages: b.n, Obsolete: min(b.obsolete, b.n), Share: b.n / known, Change: []float64{-math.Expm1(-b.rate / b.n * c.p.PlanEvery)},
			Cost: []float64{b.cost / b.n}, Weight: weights})
	}
	plan, err := cycle.Solve(m)
	if err != nil {
		return err
	}
	p.share, p.fresh, p.Gap = map[uint8][]float64{}, make([]float64, c.periods), plan.Gap
	for j, k := range of {
		u := make([]float64, c.periods)
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

// spread makes the period's due times.
func (p *cyclePlan) spread(facts []Facts, c *cyclic) {
	var by [cycle.MaxBuckets][]Slot
	var fresh []Slot
	for i := range facts {
		f := &facts[i]
		switch {
		case !plannable(f) || !c.slow(f) || f.Out > 0:
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

// Ratio implements Mixer: the share of channels never crawled among what the period in force wants, the fast channels that price serves counted as in the last one.
func (c *cyclic) Ratio() (share float64, ok bool) {
	if c.plan == nil || c.plan.Old+c.plan.New == 0 {
		return 0, false
	}
	return float64(c.plan.New) / (float64(c.plan.Old+c.plan.New) + c.plan.Fast), true
}

// Report implements Reporter.
func (c *cyclic) Report() (PlanReport, bool) {
	p := c.plan
	if p == nil {
		return PlanReport{}, false
	}
	r := PlanReport{At: p.from, Next: p.to, Channels: p.channels, Capacity: p.capacity, Strategy: p.strategy, Cycle: p.cycles + 1, Period: p.period + 1, Periods: c.periods, Old: p.Old, New: p.New, Gap: p.Gap}
	r.Ratio, _ = c.Ratio()
	for _, b := range slices.Sorted(maps.Keys(p.share)) {
		r.Buckets, r.Shares = append(r.Buckets, int(b)), append(r.Shares, p.share[b][p.period])
	}
	return r, true
}

// Explain implements Explainer: the channel's bucket, and what the period in force does with it.
func (c *cyclic) Explain(s Slot, f *Facts) string {
	if !c.slow(f) {
		return fmt.Sprintf("one change in %.4g ticks by estimate: oftener than once a period, so that price serves it", f.Est.Interval())
	}
	why := fmt.Sprintf("bucket %d: one change in %.4g ticks", f.Bucket, 1/cycle.RateOf(f.Bucket))
	switch {
	case c.plan == nil:
		return why + "; no cycle is planned yet"
	case int(s) < len(c.plan.due) && c.plan.due[s] > 0:
		return why + fmt.Sprintf("; due in this period, at tick %d", c.plan.due[s])
	}
	return why + "; not due in this period"
}
