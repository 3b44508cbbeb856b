package recrawl

import (
	"context"
	"math"
)

// optimal crawls by the plan of package allocate. Every planning interval it takes the capacity that updates have shown, gives each channel
// its best frequency, and lays out the crawls of the coming interval as a timetable. The times of the timetable are the channels' due times.
//
// A crawl costs its channel's thread time, as in price. So the crawls bought are those with the greatest gain for their cost, and capacity
// is cost, not count. Frequencies are computed over a longer span of T ticks: a channel crawled x times at even distances is crawled every
// T/(x+1). The crawls to give out are capacity*T less one for every channel, and no channel waits longer than T.
//
// What the plan promises allows for how unevenly the swarm has kept its intervals so far, and for how much more or less visits have found
// than the estimates led to expect.
//
// Between plans the machine of price goes on. A task's value is 1 when it is due and grows with its lateness in units of its interval. A
// swarm that turns out smaller than planned thus stretches all intervals alike, and a larger one shortens them. The window keeps waits at
// their target.
type optimal struct {
	*price
	limits  *Limits
	since   Tick    // measured since
	updates int64   // since then
	spent   float64 // their cost
	served  float64 // the ticks that their tasks ran, where peers tell
	usage   usage   // of the peers' threads since then
	plan    *optimalPlan
	left    []Slot // as in cyclic
	logs    histories
	kept    [keptGaps]float32 // gaps between updates over the interval planned, the latest
	keptN   int
	found   [keptVisits]float32 // of the latest visits, changes expected by the estimate of then; below 0 where none was found
	foundN  int

	restored float64 // capacity of the last plan before a restart; 0: none
}

// How many gaps tell how well intervals are kept, and how many visits how good the estimates were.
const (
	keptGaps   = 512
	keptVisits = 4096
)

const firstPlan = 4 // the first plan comes after this part of a planning interval

func newOptimal(p Params) *optimal {
	p.PlanEvery = or(p.PlanEvery, PlanDay)
	return &optimal{price: newPrice("optimal", p, ageIndex{})}
}

func (o *optimal) Start(now Tick, in Setting) {
	o.price.Start(now, in)
	o.limits = in.Limits
	o.since = now
	o.updates, o.spent, o.served, o.usage = 0, 0, 0, usage{}
	if o.plan != nil { // the clock was set back, and the plan is of another time
		o.restored, o.plan = o.plan.Summary.Spend, nil
	}
}

func (o *optimal) Observe(now Tick, s Slot, f *Facts, e Event) {
	o.price.Observe(now, s, f, e)
	switch e.Kind {
	case Updated:
		o.updates++
		o.spent += o.cost(f)
		o.served += max(float64(e.Service), 0)
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
		if !e.Stays {
			o.logs.forget(s)
			o.left = append(o.left, s)
			o.plan.leave(s)
		}
	case Added:
		if f.Flags&Known != 0 { // visits tell nothing of a rate that is given
			o.logs.forget(s)
		}
	}
}

// interval is the planned interval of a slot. Without a plan, and for slots newer than the plan, it is the estimated change interval. fixed
// says that the slot's times are not to be moved.
func (o *optimal) interval(s Slot, f *Facts) (ticks float64, fixed bool) {
	if o.plan != nil && int(s) < len(o.plan.interval) && o.plan.interval[s] != 0 {
		v := float64(o.plan.interval[s])
		return math.Abs(v), v < 0
	}
	return 1 / f.Est.Rate(), false
}

// leave takes a slot out of the plan, whose next channel came after it.
func (plan *optimalPlan) leave(s Slot) {
	if plan != nil && int(s) < len(plan.interval) {
		plan.interval[s] = 0
	}
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
	if o.plan == nil || int(s)+1 >= len(o.plan.first) || o.plan.interval[s] == 0 {
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

// Plan takes its measurements on the loop, and leaves the planning itself to the function that it returns.
func (o *optimal) Plan(now Tick) Planning {
	wait := wholeTicks(o.p.PlanEvery)
	if o.plan == nil {
		wait = max(wait/firstPlan, 1)
	}
	if o.restored == 0 && (now-o.since < wait || o.updates == 0) {
		return nil
	}
	prices := o.costs
	in := planInput{models: o.logs.models(), cost: prices.cost, spend: o.capacity(now), every: wholeTicks(o.p.PlanEvery),
		bias: rateBias(o.found[:min(o.foundN, keptVisits)]), limits: *o.limits}
	for _, g := range o.kept[:min(o.keptN, keptGaps)] {
		in.kept = append(in.kept, float64(g))
	}
	since := o.since
	o.left = nil
	return func(ctx context.Context, facts []Facts) (adopt func(), err error) {
		p, err := planOptimal(ctx, now, facts, in)
		if err != nil {
			return nil, err
		}
		return func() {
			if o.since != since { // the clock was set back meanwhile
				return
			}
			for _, s := range o.left {
				p.leave(s)
			}
			o.plan, o.since, o.left = p, now, nil
			o.updates, o.spent, o.served, o.restored = 0, 0, 0, 0
			o.usage.reset()
		}, nil
	}
}

// capacity is what the swarm has to spend a tick: the threads that peers offer, corrected by what they turned out to do. Where nobody tells of
// threads, it is what updates have shown.
func (o *optimal) capacity(now Tick) float64 {
	if o.restored > 0 {
		return o.restored
	}
	shown := o.spent / o.usage.awake(now, o.since) * o.usage.factor()
	if o.plan != nil { // the swarm changes more slowly than chance
		return .5*shown + .5*o.plan.Summary.Spend
	}
	// Most of the first tasks are still running. What has ended tells what a thread is worth, but not how many there are.
	if o.served > 0 {
		shown = max(shown, o.usage.offer(now, o.since)*o.spent/o.served)
	}
	return shown
}

// Quota implements Strategy.
func (o *optimal) Quota(now Tick, l Load) Quota {
	o.usage.see(now, l)
	return o.price.Quota(now, l)
}

// AppendState keeps the capacity, so that the first plan after a restart can be made at once. Visits are learnt anew.
func (o *optimal) AppendState(b []byte) []byte {
	spend := o.restored
	if o.plan != nil {
		spend = o.plan.Summary.Spend
	}
	return appendFloats(o.price.AppendState(b), []float64{spend, o.life})
}

// Restore reads what AppendState wrote.
func (o *optimal) Restore(b []byte) error {
	more, err := o.restoreWith(b, 2)
	if err != nil {
		return err
	}
	o.restored, o.life = more[0], more[1]
	return nil
}

// Day is the planning interval.
func (o *optimal) Day() float64 { return o.p.PlanEvery }

// Recall takes in a stored history, and the model that it speaks for.
func (o *optimal) Recall(s Slot, f *Facts, history []byte, c Chosen) {
	o.logs.day = o.p.PlanEvery
	o.logs.recall(s, f, history, c)
}

// Report tells of the plan in force.
func (o *optimal) Report() *PlanReport {
	if o.plan == nil {
		return nil
	}
	m := &o.plan.Summary
	return &PlanReport{At: m.At, Next: o.since + wholeTicks(o.p.PlanEvery), Channels: m.Channels, Capacity: m.Spend, Updates: m.Capacity,
		Freshness: m.Freshness, Plain: m.Plain, Price: m.Price, Moves: m.Cost, AtCap: m.AtCap, Models: m.Models}
}

// Explain says which update model a channel was given, and why, and at what interval the plan has it crawled.
func (o *optimal) Explain(s Slot, f *Facts, span Span) string {
	why := o.logs.explain(s)
	if why == "" {
		why = tooFew(f, span)
	}
	if o.plan != nil && int(s) < len(o.plan.interval) && o.plan.interval[s] != 0 {
		why += "; planned every " + span(math.Abs(float64(o.plan.interval[s])))
	}
	return why
}
