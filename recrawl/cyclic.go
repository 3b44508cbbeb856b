package recrawl

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"shoal/recrawl/cycle"
)

// cyclic is strategy cycle. Channels stand in buckets by one byte of change rate. Package cycle plans a cycle of periods from measured
// rates, costs and arrivals: the paper's Strategy 2 in the first cycles, to drive obsolete channels down, and Strategy 3 or 1 afterwards.
// Each period gives every bucket its share, the channels longest not updated first, and the channels never crawled theirs, and spreads
// their due times over the period.
//
// Price serves the channels that change faster than a period, and keeps the window on tasks out. Price also takes over when a period ends
// without a new plan.
type cyclic struct {
	*price
	since   Tick // measured since
	added   int64
	never   int     // channels never crawled
	spent   float64 // cost of the tasks submitted for slow channels since the last plan
	fast    int64   // tasks submitted for the others
	ticks   int     // calls of Taken since, and those that wanted more than there was room for
	short   int
	usage   usage // of the peers' threads since
	plan    *cyclePlan
	left    []Slot // given back since the planning began that runs now: their next channels are none of its
	periods int
	planned bool // the last task taken was by plan, not by price

	restored []float64 // capacity, arrivals, cycles and life before a restart
}

func newCyclic(p Params) *cyclic {
	p.PlanEvery = or(p.PlanEvery, PlanDay)
	if p.Periods == 0 {
		p.Periods = 14
	}
	return &cyclic{price: newPrice("cycle", p, freshIndex{}), periods: p.Periods}
}

func (c *cyclic) Start(now Tick, in Setting) {
	c.price.Start(now, in)
	c.since = now
	c.added, c.fast, c.spent, c.ticks, c.short, c.usage = 0, 0, 0, 0, 0, usage{}
	if p := c.plan; p != nil { // the clock was set back, and the plan is of another time
		if c.plan = nil; p.capacity > 0 {
			c.restored = []float64{p.capacity, p.arrive, float64(p.cycles), c.life}
		}
	}
}

func (c *cyclic) Observe(now Tick, s Slot, f *Facts, e Event) {
	c.price.Observe(now, s, f, e)
	switch e.Kind {
	case Added:
		if f.Updated == 0 {
			c.never++
			if !e.Stays {
				c.added++
			}
		}
	case Removed:
		if f.Updated == 0 {
			c.never--
		}
		if !e.Stays {
			c.left = append(c.left, s)
			c.plan.leave(s)
		}
	case Updated:
		if f.Updated == 0 {
			c.never--
		}
	case Submitted:
		if c.planned = slow(f, c.p.PlanEvery); c.planned {
			c.spent += c.cost(f)
		} else {
			c.fast++
		}
	}
}

// slow says whether a channel belongs to the model: it changes at most once a period.
func slow(f *Facts, period float64) bool { return f.Est.Rate()*period <= 1 }

func (c *cyclic) Rank(now, least Tick, s Slot, f *Facts) (float32, Tick) {
	if !slow(f, c.p.PlanEvery) || c.plan == nil || int(s) >= len(c.plan.due) || c.plan.due[s] == unplanned || now > c.plan.to+(c.plan.to-c.plan.from)/2 {
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

// Quota mixes by the plan's share of channels never crawled.
func (c *cyclic) Quota(now Tick, l Load) Quota {
	c.usage.see(now, l)
	q := c.price.Quota(now, l)
	q.New, q.Mixed = c.share()
	return q
}

// unplanned is in the place of the due time of a slot whose channel came after the plan.
const unplanned Tick = -1

// leave takes a slot out of the plan.
func (p *cyclePlan) leave(s Slot) {
	if p != nil && int(s) < len(p.due) {
		p.due[s] = unplanned
	}
}

// share is the share of channels never crawled among what the period in force wants. The fast channels that price serves count as in the
// last period.
func (c *cyclic) share() (share float64, ok bool) {
	if c.plan == nil || c.plan.Old+c.plan.New == 0 {
		return 0, false
	}
	return float64(c.plan.New) / (float64(c.plan.Old+c.plan.New) + c.plan.Fast), true
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

// Plan takes its measurements on the loop, and leaves the planning itself to the function that it returns.
func (c *cyclic) Plan(now Tick) Planning {
	if now-c.since < wholeTicks(c.p.PlanEvery) && c.restored == nil || c.firstPass(now) {
		return nil
	}
	c.left = nil
	next, work := c.nextPeriod(now), planning{prices: c.costs, every: c.p.PlanEvery, periods: c.periods}
	work.begin = c.plan == nil || next.period >= c.periods
	if work.begin && c.plan != nil {
		next.cycles++
	}
	since := c.since
	return func(ctx context.Context, facts []Facts) (adopt func(), err error) {
		if err := work.make(ctx, next, facts); err != nil {
			return nil, err
		}
		return func() {
			if c.since != since { // the clock was set back meanwhile
				return
			}
			for _, s := range c.left {
				next.leave(s)
			}
			c.plan, c.left, c.restored, c.since = next, nil, nil, now
			c.added, c.fast, c.spent, c.ticks, c.short = 0, 0, 0, 0, 0
			c.usage.reset()
		}, nil
	}
}

// firstPass says whether most channels are still to be crawled for the first time. Until then there is nothing to plan with, and price takes
// those never crawled before all others. It ends with the time of a cycle.
func (c *cyclic) firstPass(now Tick) bool {
	return c.plan == nil && c.restored == nil && c.never*firstPassPart > c.channels() && float64(now-c.since) < c.p.PlanEvery*float64(c.periods)
}

const firstPassPart = 10 // the first pass is over when less than this part of the channels are left

// nextPeriod is the period that begins now, as far as it follows from what was measured.
func (c *cyclic) nextPeriod(now Tick) *cyclePlan {
	elapsed := c.usage.awake(now, c.since)
	next := &cyclePlan{from: now, to: now + wholeTicks(c.p.PlanEvery), capacity: c.spent / elapsed,
		arrive: float64(c.added) / elapsed, Fast: float64(c.fast) / elapsed * c.p.PlanEvery}
	if c.plan == nil {
		next.arrive, next.capacity = 0, 0 // the first arrivals were all there were
		if r := c.restored; r != nil {
			next.capacity, next.arrive, next.cycles = r[0], r[1], int(r[2])
		}
		return next
	}
	// What the swarm took is its capacity if it was offered more than that; if not, it may have more.
	switch {
	case c.usage.offered > 0: // peers tell what they offer
		next.capacity = .5*next.capacity*c.usage.factor() + .5*c.plan.capacity
	case c.short*5 > c.ticks:
		next.capacity = .5*next.capacity + .5*c.plan.capacity
	default:
		next.capacity = max(next.capacity, c.plan.capacity) * growth
	}
	next.arrive = .9*c.plan.arrive + .1*next.arrive
	next.period, next.cycles = c.plan.period+1, c.plan.cycles
	next.share, next.fresh, next.Gap, next.strategy = c.plan.share, c.plan.fresh, c.plan.Gap, c.plan.strategy
	return next
}

const growth = 1.15 // of capacity after a period in which all that was due was taken

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

// Restore reads what AppendState wrote.
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

// Report tells of the period in force.
func (c *cyclic) Report() *PlanReport {
	p := c.plan
	if p == nil {
		return nil
	}
	r := &PlanReport{At: p.from, Next: p.to, Channels: p.channels, Capacity: p.capacity, Strategy: p.strategy, Cycle: p.cycles + 1,
		Period: p.period + 1, Periods: c.periods, Old: p.Old, New: p.New, Gap: p.Gap}
	r.Ratio, _ = c.share()
	for _, b := range slices.Sorted(maps.Keys(p.share)) {
		r.Buckets, r.Shares = append(r.Buckets, int(b)), append(r.Shares, p.share[b][p.period])
	}
	return r
}

// Explain tells the channel's bucket, and what the period in force does with it.
func (c *cyclic) Explain(s Slot, f *Facts, span Span) string {
	if !slow(f, c.p.PlanEvery) {
		return fmt.Sprintf("one change in %s by estimate: oftener than once a period, so that price serves it", span(f.Est.Interval()))
	}
	why := fmt.Sprintf("bucket %d: one change in %s", f.Bucket, span(1/cycle.RateOf(f.Bucket)))
	switch {
	case c.plan == nil:
		return why + "; no cycle is planned yet"
	case int(s) >= len(c.plan.due), c.plan.due[s] == unplanned:
		return why + "; newer than the period, so that price serves it"
	case c.plan.due[s] > 0:
		return why + fmt.Sprintf("; due in this period, at tick %d", c.plan.due[s])
	}
	return why + "; not due in this period"
}
