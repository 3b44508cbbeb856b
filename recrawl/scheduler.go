package recrawl

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"shoal/recrawl/cycle"
)

// Options of a Scheduler that hold for every strategy.
type Options struct {
	Cap      float64   // a channel is recrawled at most so many times its change rate; 0: no upper limit
	MinTicks Tick      // and never more often than this; 0: 1
	MaxOut   int       // tasks that a channel may have out at once; 0: any number (up to 255 are counted)
	Groups   int       // priority groups; ignored if Initial is set
	Initial  []float64 // change intervals that define the groups, in ticks, fastest first; nil: groups are learnt
	Relearn  Tick      // ticks between two looks at the groups' borders; 0: never again
	Prior    Estimate  // of a channel that comes without facts

	// Pending tells how many pages of a never crawled channel are known. Where a strategy takes all such channels before any other, those with
	// more pages go first: larger sites first (Baeza-Yates, Castillo, Marín, Rodríguez, WWW 2005). nil: in any order.
	Pending func(Slot) int

	// Ahead is called with slots that Next is likely to take soon, some of them several times, so that the owner can read what it keeps of
	// them in one go: a processor waits as long for many lines of memory as for one. It must change nothing. nil: nothing is read.
	Ahead func(Slot)
}

// DefaultOptions are those of the manager, whose tick is a minute: at most one task out, twice the change rate, ten minutes.
func DefaultOptions() Options {
	return Options{Cap: 2, MinTicks: 10, MaxOut: 1, Groups: 5, Relearn: 1440, Prior: Prior(1440, .5)}
}

// ErrOptions says that Options cannot be used.
var ErrOptions = errors.New("recrawl: bad options")

// Validate names the first bad field.
func (o Options) Validate() error {
	switch {
	case !(o.Cap >= 0) || math.IsInf(o.Cap, 0):
		return fmt.Errorf("%w: cap %v: want 0 (none) or a positive factor of the change rate", ErrOptions, o.Cap)
	case o.MinTicks < 0:
		return fmt.Errorf("%w: minimum interval %d ticks is negative", ErrOptions, o.MinTicks)
	case o.MaxOut < 0 || o.MaxOut > 255:
		return fmt.Errorf("%w: %d tasks out: want 0 (any number) to 255", ErrOptions, o.MaxOut)
	case o.Initial == nil && (o.Groups < 1 || o.Groups > MaxGroups), len(o.Initial) > MaxGroups, o.Initial != nil && len(o.Initial) == 0:
		return fmt.Errorf("%w: want 1 to %d groups", ErrOptions, MaxGroups)
	case o.Relearn < 0:
		return fmt.Errorf("%w: %d ticks between two looks at the groups is negative", ErrOptions, o.Relearn)
	case !o.Prior.valid():
		return fmt.Errorf("%w: the prior must have a positive strength and interval", ErrOptions)
	}
	for i, v := range o.Initial {
		if !(v > 0) || math.IsInf(v, 0) || i > 0 && v <= o.Initial[i-1] {
			return fmt.Errorf("%w: initial intervals %v: want positive and growing ones", ErrOptions, o.Initial)
		}
	}
	return nil
}

// Scheduler holds the facts and the calendar. It is owned by one goroutine.
type Scheduler struct {
	opt       Options
	strategy  Strategy
	groups    *Groups
	cells     table
	wheel     calendar
	ready     [2]ready // known channels; those never crawled
	mix       mix
	spares    spares
	free      uint32
	live      int
	sweep     int // next cell to rank again; -1: none
	relearnt  Tick
	refreshed Tick
	reordered Tick
	found     []uint64 // bits of slots of which something was found
	anyFound  bool
	now       Tick
	limits    Limits
	quota     Quota // the strategy's last
	crowd     crowd
	foreign   bool // facts hold what was counted for another strategy, or for one whose state is lost
}

// NewScheduler makes an empty scheduler. opt must be valid.
func NewScheduler(now Tick, strategy Strategy, opt Options) *Scheduler {
	s := &Scheduler{opt: opt, strategy: strategy, groups: newGroups(opt.Groups, opt.Initial), free: none, now: now, relearnt: now,
		limits: Limits{opt.Cap, max(1, opt.MinTicks)}, crowd: crowd{prior: opt.Prior, fitted: now, bring: -1}, foreign: true}
	s.wheel = newCalendar(&s.cells)
	s.wheel.at = now - 1
	s.mix = mix{known: &s.ready[0], new: &s.ready[1], rng: rand.New(rand.NewPCG(1, 1))} // the same calls, the same decisions
	strategy.Start(now, s.setting(false))
	return s // whose first sweep ranks what was added before the groups were complete
}

func (s *Scheduler) setting(anew bool) Setting {
	return Setting{Groups: s.groups, Limits: &s.limits, Anew: anew}
}

// Len is the number of slots in use.
func (s *Scheduler) Len() int { return s.live }

// Ready is the number of slots that are wanted now and wait for room.
func (s *Scheduler) Ready() int { return len(s.ready[0].heap) + len(s.ready[1].heap) }

// ReadyNew is how many of them were never crawled.
func (s *Scheduler) ReadyNew() int { return len(s.ready[1].heap) }

// Share is the share of what is taken that goes to channels never crawled while known ones wait too: the caller's, if not 0, else what the
// strategy said last. ok is false if the order of values alone decides.
func (s *Scheduler) Share(given float64) (share float64, ok bool) {
	if given > 0 {
		return min(given, 1), true
	}
	return s.quota.New, s.quota.Mixed
}

// Strategy is the one in force.
func (s *Scheduler) Strategy() Strategy { return s.strategy }

// Groups are the priority groups.
func (s *Scheduler) Groups() *Groups { return s.groups }

// Intervals are the present recrawl intervals by group, fastest first.
func (s *Scheduler) Intervals() []Tick {
	v := s.strategy.Intervals()
	t := make([]Tick, len(v))
	for i, x := range v {
		t[i] = wholeTicks(x)
	}
	return t
}

// Facts are a copy of a slot's facts.
func (s *Scheduler) Facts(at Slot) Facts { return s.cells.at(at).Facts }

// Snapshot copies all facts, indexed by slot, for a Planner. Slots that are not in use are zero.
func (s *Scheduler) Snapshot() []Facts {
	all := make([]Facts, s.cells.n)
	for i := range all {
		if c := s.cells.at(Slot(i)); c.Flags&gone == 0 {
			all[i] = c.Facts
		}
	}
	return all
}

// Prior is what is believed of a channel that comes without facts: as the options say, and what visits to others tell once there are some.
func (s *Scheduler) Prior() Estimate {
	e := s.opt.Prior
	if s.crowd.shape > 0 {
		e.solve(&s.crowd)
	}
	return e
}

// Add takes a channel in. Facts without an estimate get the prior.
func (s *Scheduler) Add(f Facts) Slot {
	var at Slot
	if s.free != none {
		at = Slot(s.free)
		s.free = uint32(s.cells.at(at).due)
	} else {
		at = s.cells.grow()
	}
	c := s.cells.at(at)
	f.Flags &= Known | Pinned | Paused | Denied
	if !f.Est.valid() {
		f.Est = s.Prior()
		f.Flags &^= Known
	}
	if f.Updated == 0 {
		f.Bucket = cycle.BucketOf(f.Est.Rate())
	}
	f.Bucket = cycle.Update(f.Bucket, f.Est.Rate()) // of a record without one
	if s.foreign {
		f.forget()
	}
	c.Facts = f
	s.live++
	s.join(at, c, false)
	s.place(at, c)
	return at
}

// join puts a slot into its group and tells the strategy.
func (s *Scheduler) join(at Slot, c *cell, stays bool) {
	i := c.Est.Interval()
	if c.Flags&Pinned == 0 || int(c.Group) >= s.groups.K() {
		now := -1
		if c.Updated > 0 && int(c.Group) < s.groups.K() { // it had a group before a restart
			now = int(c.Group)
		}
		c.Group = uint8(s.groups.of(i, now))
	}
	s.groups.add(int(c.Group), i, c.Flags&Paused != 0)
	s.strategy.Observe(s.now, at, &c.Facts, Event{Kind: Added, Stays: stays})
}

// Remove gives the slot back.
func (s *Scheduler) Remove(at Slot) {
	c := s.cells.at(at)
	if c.Flags&gone != 0 {
		return
	}
	s.unplace(at, c)
	s.strategy.Observe(s.now, at, &c.Facts, Event{Kind: Removed})
	s.groups.remove(int(c.Group), c.Est.Interval(), c.Flags&Paused != 0)
	c.Facts = Facts{Flags: gone}
	c.due = Tick(s.free)
	s.free = uint32(at)
	s.live--
}

// Edit changes what its owner may change: weight, pause, a fixed group or rate, tasks out after a restart, and when the last task was taken
// (zero: the channel is as new). Changes to other facts are ignored.
func (s *Scheduler) Edit(at Slot, change func(*Facts)) {
	c := s.cells.at(at)
	if c.Flags&gone != 0 {
		return
	}
	f := c.Facts
	change(&f)
	s.unplace(at, c)
	s.strategy.Observe(s.now, at, &c.Facts, Event{Kind: Removed, Stays: true})
	s.groups.remove(int(c.Group), c.Est.Interval(), c.Flags&Paused != 0)
	c.Weight, c.Out, c.Group, c.Submitted = f.Weight, f.Out, f.Group, f.Submitted
	c.Flags = f.Flags & (Known | Pinned | Paused | Denied)
	if f.Est.valid() {
		c.Est = f.Est
		c.Bucket = cycle.Update(c.Bucket, c.Est.Rate())
	}
	s.join(at, c, true)
	s.place(at, c)
}

// SetStrategy goes on with another strategy, new or with its state recovered, and the same facts.
func (s *Scheduler) SetStrategy(now Tick, strategy Strategy) {
	s.now = max(s.now, now)
	s.strategy, s.quota = strategy, Quota{}
	strategy.Start(s.now, s.setting(true))
	for i := range s.cells.n {
		c := s.cells.at(Slot(i))
		if c.Flags&gone == 0 {
			c.forget()
			strategy.Observe(s.now, Slot(i), &c.Facts, Event{Kind: Added})
		}
	}
	s.Rerank()
}

// SetLimits changes cap and minimum interval while running.
func (s *Scheduler) SetLimits(capRate float64, minTicks Tick) error {
	opt := s.opt
	opt.Cap, opt.MinTicks = capRate, minTicks
	if err := opt.Validate(); err != nil {
		return err
	}
	s.opt, s.limits = opt, Limits{capRate, max(1, minTicks)}
	s.Rerank()
	return nil
}

// Rerank makes the next calls of Next rank all slots again.
func (s *Scheduler) Rerank() { s.sweep = 0 }

// Observe takes what became of a task, or a signal.
func (s *Scheduler) Observe(now Tick, at Slot, e Event) {
	s.now = max(s.now, now)
	c := s.cells.at(at)
	if c.Flags&gone != 0 {
		return
	}
	s.strategy.Observe(now, at, &c.Facts, e)
	switch e.Kind {
	case Accepted:
		c.Flags &^= Denied
		return
	case Updated:
		s.updated(now, at, c, e)
		c.Flags &^= Denied
		c.Out -= min(c.Out, 1)
	case Refused, Lost:
		c.Flags |= Denied
		c.Out -= min(c.Out, 1)
	case Failed:
		c.Flags &^= Denied
		c.Out -= min(c.Out, 1)
	case Signalled:
		if c.Signalled == 0 {
			c.Signalled = now
		}
	default:
		return
	}
	if c.Flags&inReady == 0 {
		s.place(at, c)
	}
}

func (s *Scheduler) updated(now Tick, at Slot, c *cell, e Event) {
	if e.Service > 0 {
		learnt := e.Service
		if old := c.Service.Float(); old > 0 {
			learnt = old + .3*(e.Service-old)
		}
		c.Service = ToHalf(learnt)
	}
	before := c.Updated
	c.Updated, c.Signalled = now, 0
	old := c.Est.Interval()
	if before > 0 && c.Flags&Known == 0 {
		c.Est.visit(float64(now-before), e.Changed, &s.crowd)
	}
	s.regroup(now, at, c, old)
}

// regroup puts a slot where it belongs by its change interval, which was another one.
func (s *Scheduler) regroup(now Tick, at Slot, c *cell, old float64) {
	c.Bucket = cycle.Update(c.Bucket, c.Est.Rate())
	interval := c.Est.Interval()
	s.groups.remove(int(c.Group), old, c.Flags&Paused != 0)
	if to := s.groups.of(interval, int(c.Group)); c.Flags&Pinned == 0 && to != int(c.Group) {
		s.strategy.Observe(now, at, &c.Facts, Event{Kind: Moved, From: c.Group})
		c.Group = uint8(to)
		if c.Epoch < waitEpoch {
			c.Subs, c.Succ, c.Anchor, c.Epoch = 0, 0, 0, 0 // its counters begin anew
		}
	}
	s.groups.add(int(c.Group), interval, c.Flags&Paused != 0)
}
