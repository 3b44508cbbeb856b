package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"shoal/recrawl"
	"shoal/recrawl/allocate"
)

// Channel is a channel of the database.
type Channel struct {
	ID      string
	Pages   int // of its stored copy
	Facts   recrawl.Facts
	History []byte // its last visits, which choose its update model; empty: Poisson's
}

// Channels plans for channels of a database, in ticks: minutes, in the manager.
type Channels struct {
	Now   recrawl.Tick
	All   []Channel
	Every recrawl.Tick // planning interval of strategy optimal; 0: a day of minutes
	Cap   float64      // a channel is recrawled at most so many times its change rate; 0: no limit
	Least recrawl.Tick // and no oftener than this
	Time  string       // unit of a tick, for display; empty: minutes
	TickS float64      // seconds of a tick, for programs

	Measured float64 // capacity that a running strategy has measured; 0: what the channels' updates show

	Thorough bool                            // look at every channel, however long it takes
	Progress func(what string, done, of int) // may be called by several goroutines; nil: not at all

	unfitted int
	last     *recrawl.Outline // of the capacity lastOf
	lastOf   float64
	facts    []recrawl.Facts
	models   map[recrawl.Slot]allocate.Model
}

func (c *Channels) every() recrawl.Tick { return cmp.Or(c.Every, recrawl.PlanDay) }

// mostFits is how many histories are fitted that do not look like a Poisson process at a first glance, unless Thorough: every n-th of them.
// A fit takes about a millisecond.
const mostFits = 1000

func (c *Channels) list() []recrawl.Facts {
	if c.facts != nil {
		return c.facts
	}
	c.models = map[recrawl.Slot]allocate.Model{}
	var odd []int // their histories do not look like Poisson's
	for i := range c.All {
		it := &c.All[i]
		c.facts = append(c.facts, it.Facts)
		if !recrawl.LooksPoisson(it.History, &it.Facts, float64(c.every())) {
			odd = append(odd, i)
		}
	}
	fit := odd
	if step := (len(odd) + mostFits - 1) / mostFits; step > 1 && !c.Thorough {
		fit = nil
		for k := 0; k < len(odd); k += step {
			fit = append(fit, odd[k])
		}
	}
	c.unfitted = len(odd) - len(fit)
	chosen := make([]recrawl.Chosen, len(fit))
	var next, done atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for k := int(next.Add(1)) - 1; k < len(fit); k = int(next.Add(1)) - 1 {
				it := &c.All[fit[k]]
				chosen[k] = recrawl.Choose(it.History, &it.Facts, float64(c.every()))
				c.tell("update models", int(done.Add(1)), len(fit))
			}
		})
	}
	wg.Wait()
	for k, m := range chosen {
		if m.Other {
			c.models[recrawl.Slot(fit[k])] = m.Model
		}
	}
	return c.facts
}

// tell shows how far something is.
func (c *Channels) tell(what string, done, of int) {
	if c.Progress != nil {
		c.Progress(what, done, of)
	}
}

// Unfitted implements Source.
func (c *Channels) Unfitted() int { c.list(); return c.unfitted }

// sampleOver is from how many channels on the table of capacities is computed on every n-th, with as much less capacity.
const sampleOver = 20_000

// Sampled implements Source.
func (c *Channels) Sampled() (Source, float64) {
	step := (len(c.All) + sampleOver - 1) / sampleOver
	if step <= 1 || c.Thorough {
		return c, 1
	}
	c.list()
	few := &Channels{Now: c.Now, Every: c.Every, Cap: c.Cap, Least: c.Least, Time: c.Time, facts: []recrawl.Facts{}, models: map[recrawl.Slot]allocate.Model{}}
	for i := 0; i < len(c.All); i += step {
		if m, ok := c.models[recrawl.Slot(i)]; ok {
			few.models[recrawl.Slot(len(few.All))] = m
		}
		few.All, few.facts = append(few.All, c.All[i]), append(few.facts, c.facts[i])
	}
	return few, float64(len(few.All)) / float64(len(c.All))
}

func (c *Channels) ahead(capacity float64) recrawl.Ahead {
	return recrawl.Ahead{Spend: capacity, Every: c.every(), Models: c.models, Cap: c.Cap, Least: c.Least}
}

// Models implements Source.
func (c *Channels) Models() map[string]int {
	n := map[string]int{}
	c.list()
	for _, m := range c.models {
		n[m.Kind().String()]++
	}
	if rest := len(c.All) - len(c.models); rest > 0 {
		n[allocate.PoissonKind.String()] += rest
	}
	return n
}

// Frequencies implements Source.
func (c *Channels) Frequencies(ctx context.Context, capacity float64) (changes, crawls []float64, err error) {
	o, err := c.outline(ctx, capacity)
	if err != nil {
		return nil, nil, err
	}
	for s, iv := range o.Interval {
		if iv > 0 {
			changes, crawls = append(changes, c.facts[s].Est.Rate()*float64(c.every())), append(crawls, float64(c.every())/iv)
		}
	}
	return changes, crawls, nil
}

// Unit implements Source.
func (c *Channels) Unit() (capacity, time string) {
	return "busy threads", cmp.Or(c.Time, "minutes")
}

// Interval implements Source.
func (c *Channels) Interval() string {
	if c.Time == "" && c.every() == recrawl.PlanDay {
		return "a day"
	}
	return fmt.Sprintf("%d %s", c.every(), cmp.Or(c.Time, "minutes"))
}

// Len implements Source.
func (c *Channels) Len() int { return len(c.All) }

// Default implements Source.
func (c *Channels) Default() float64 {
	if c.Measured > 0 {
		return c.Measured
	}
	histories := make([][]byte, len(c.All))
	for i := range c.All {
		histories[i] = c.All[i].History
	}
	spent := recrawl.Spent(c.Now, c.list(), histories, min(c.every(), max(c.Now, 1)))
	if spent > 0 {
		return spent
	}
	newest := recrawl.Tick(0) // nothing of late: the manager was stopped, or had nothing to do
	for i := range c.All {
		newest = max(newest, c.All[i].Facts.Updated)
	}
	return recrawl.Spent(newest, c.list(), histories, min(c.every(), max(newest, 1)))
}

func (c *Channels) outline(ctx context.Context, capacity float64) (recrawl.Outline, error) {
	if c.last != nil && c.lastOf == capacity {
		return *c.last, nil
	}
	o, err := recrawl.NewOutline(ctx, c.Now, c.list(), c.ahead(capacity))
	if err == nil {
		c.last, c.lastOf = &o, capacity
	}
	return o, err
}

// Buys implements Source.
func (c *Channels) Buys(ctx context.Context, capacity float64) (Point, error) {
	o, err := c.outline(ctx, capacity)
	if err != nil {
		return Point{}, err
	}
	p := Point{Capacity: capacity, Crawls: o.Capacity * float64(c.every()), Freshness: o.Freshness, Uniform: o.Uniform}
	for s, iv := range o.Interval {
		if iv > 0 {
			p.Pages += float64(c.All[s].Pages) / iv * float64(c.every())
		}
	}
	return p, nil
}

// Timetable implements Source. The swarm counts as one crawler.
func (c *Channels) Timetable(ctx context.Context, capacity float64) (entries []Entry, moved float64, err error) {
	o, err := c.outline(ctx, capacity)
	if err != nil {
		return nil, 0, err
	}
	for i, t := range o.Due {
		entries = append(entries, Entry{ID: c.All[o.Slots[i]].ID, Time: float64(t - c.Now), Slot: i})
	}
	return entries, o.Cost, nil
}

// File plans for pages of a CSV file.
type File struct {
	IDs      []string
	Pages    []allocate.Page
	Span     float64
	Crawlers int // equal ones, for the timetable
	// Phases begins each page's crawls at a time of its own, one even distance apart, so that the timetable need not move them far. Without
	// it a page's ideal times are i/(x+1) of the interval, as in the paper, and all pages of as many crawls want the same times.
	Phases bool
}

// Unit implements Source.
func (f *File) Unit() (capacity, time string) { return "crawls", "units of time" }

// Interval implements Source.
func (f *File) Interval() string { return "the interval" }

// Len implements Source.
func (f *File) Len() int { return len(f.Pages) }

// Unfitted implements Source.
func (f *File) Unfitted() int { return 0 }

// Sampled implements Source.
func (f *File) Sampled() (Source, float64) { return f, 1 }

// Default implements Source.
func (f *File) Default() float64 { return float64(len(f.Pages)) }

// Models implements Source.
func (f *File) Models() map[string]int {
	n := map[string]int{}
	for i := range f.Pages {
		n[f.Pages[i].Model.Kind().String()]++
	}
	return n
}

// Frequencies implements Source.
func (f *File) Frequencies(_ context.Context, capacity float64) (changes, crawls []float64, err error) {
	res, err := allocate.Solve(allocate.Problem{Pages: f.Pages, Span: f.Span, R: int64(math.Round(capacity))})
	if err != nil {
		return nil, nil, err
	}
	for i, x := range res.X {
		changes, crawls = append(changes, f.Pages[i].Model.Rate(f.Span)*f.Span), append(crawls, float64(x))
	}
	return changes, crawls, nil
}

// Buys implements Source.
func (f *File) Buys(_ context.Context, capacity float64) (Point, error) {
	r := int64(math.Round(capacity))
	res, err := allocate.Solve(allocate.Problem{Pages: f.Pages, Span: f.Span, R: r})
	if err != nil {
		return Point{}, fmt.Errorf("%d crawls: %w", r, err)
	}
	weight := 0.
	for i := range f.Pages {
		weight += f.Pages[i].Weight
	}
	p := Point{Capacity: float64(r), Crawls: float64(r - res.Idle), Freshness: 1}
	if weight > 0 {
		p.Freshness = 1 - res.Objective/weight
		p.Uniform = 1 - allocate.Objective(f.Pages, f.Span, allocate.Uniform(f.Pages, r, false))/weight
		p.Proportional = 1 - allocate.Objective(f.Pages, f.Span, allocate.Proportional(f.Pages, f.Span, r, false))/weight
	}
	return p, nil
}

// Timetable implements Source.
func (f *File) Timetable(ctx context.Context, capacity float64) (entries []Entry, moved float64, err error) {
	res, err := allocate.Solve(allocate.Problem{Pages: f.Pages, Span: f.Span, R: int64(math.Round(capacity))})
	if err != nil {
		return nil, 0, err
	}
	p := allocate.TimetableProblem{Span: f.Span}
	var owner []int
	for i, x := range res.X {
		for _, t := range f.ideal(i, int(x)) {
			p.Ideal, p.Release, owner = append(p.Ideal, t), append(p.Release, f.Pages[i].Model.Kind() == allocate.QuasiKind), append(owner, i)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	c := max(f.Crawlers, 1)
	each := (len(p.Ideal) + c - 1) / c
	each += each/50 + 1 // a little room for crawls that must not begin early
	for range c {
		p.Slots = append(p.Slots, each)
	}
	s, err := allocate.Timetable(p)
	if err != nil {
		return nil, 0, err
	}
	for i := range p.Ideal {
		k, l, t := s.At(i)
		entries = append(entries, Entry{ID: f.IDs[owner[i]], Time: t, Crawler: k, Slot: l})
	}
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Crawler, b.Crawler))
	})
	if len(entries) > 0 {
		moved = s.Cost / float64(len(entries))
	}
	return entries, moved, nil
}

// ideal is when the x crawls of page i should be. The update instants of a quasi-deterministic page are as they are; the phases of the others
// are multiples of the golden ratio, which spreads any number of them evenly.
func (f *File) ideal(i, x int) []float64 {
	m := f.Pages[i].Model
	if !f.Phases || m.Kind() == allocate.QuasiKind {
		return m.Instants(x, f.Span)
	}
	_, phase := math.Modf(float64(i+1) / math.Phi)
	at := make([]float64, x)
	for k := range at {
		at[k] = (float64(k) + phase) / float64(x) * f.Span
	}
	return at
}
