package recrawl

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"shoal/recrawl/cycle"
	"shoal/recrawl/sequence"
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

	// Pending tells how many pages of a channel that was never crawled are known already. Where a strategy takes all such channels before
	// any other, those with more go first: larger sites first (Baeza-Yates, Castillo, Marín, Rodríguez, WWW 2005). nil: in any order.
	Pending func(Slot) int
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

const (
	sweepCells   = 1 << 17 // slots ranked again in one call of Next when a strategy asks for all
	refreshReady = 1 << 12 // ready slots whose values are refreshed in one tick, at most
	refreshShare = 4       // one in so many of them, if they are more than refreshFew: values change little in a few ticks
	refreshFew   = 64
	readNext     = 16 // slots taken between two looks ahead
	readFirst    = 85 // at so many: four levels of the heap
)

// Scheduler holds the facts and the calendar. It is owned by one goroutine.
type Scheduler struct {
	opt       Options
	strategy  Strategy
	groups    *Groups
	cells     table
	wheel     calendar
	ready     [2]ready // known channels; those never crawled
	mix       sequence.Mix[readyItem]
	free      uint32
	live      int
	sweep     int // next cell to rank again; -1: none
	relearnt  Tick
	refreshed Tick
	reordered Tick
	found     []uint64 // bits of slots of which something was found
	anyFound  bool
	now       Tick
	minTicks  Tick
	foreign   bool // what the facts of slots count was counted for another strategy, or for one whose state is lost
}

// NewScheduler makes an empty scheduler. opt must be valid.
func NewScheduler(now Tick, strategy Strategy, opt Options) *Scheduler {
	s := &Scheduler{opt: opt, strategy: strategy, groups: newGroups(opt.Groups, opt.Initial), free: none, now: now, relearnt: now,
		minTicks: max(1, opt.MinTicks), foreign: true}
	s.wheel = newCalendar(&s.cells)
	s.wheel.at = now - 1
	s.mix = sequence.Mix[readyItem]{Old: &s.ready[0], New: &s.ready[1], Rand: rand.New(rand.NewPCG(1, 1))} // the same calls, the same decisions
	s.start(strategy)
	return s // whose first sweep ranks what was added before the groups were complete
}

func (s *Scheduler) start(strategy Strategy) {
	strategy.Start(s.now, s.groups)
	if l, ok := strategy.(Limited); ok {
		l.Limits(s.opt.Cap, s.minTicks)
	}
}

// Len is the number of slots in use.
func (s *Scheduler) Len() int { return s.live }

// Ready is the number of slots that are wanted now and wait for room.
func (s *Scheduler) Ready() int { return s.mix.Backlog() }

// ReadyNew is how many of them were never crawled.
func (s *Scheduler) ReadyNew() int { return s.ready[1].Backlog() }

// Share is the share of what is taken that goes to channels never crawled while others wait too: the caller's, if not 0, else what the strategy says; false: the
// strategy's order alone decides.
func (s *Scheduler) Share(given float64) (share float64, ok bool) {
	if given > 0 {
		return min(given, 1), true
	}
	if m, ok := s.strategy.(Mixer); ok {
		return m.Ratio()
	}
	return 0, false
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
		f.Est = s.opt.Prior
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
	s.join(at, c)
	s.place(at, c)
	return at
}

// join puts a slot into its group and tells the strategy.
func (s *Scheduler) join(at Slot, c *cell) {
	i := c.Est.Interval()
	if c.Flags&Pinned == 0 || int(c.Group) >= s.groups.K() {
		now := -1
		if c.Updated > 0 && int(c.Group) < s.groups.K() { // it had a group before a restart
			now = int(c.Group)
		}
		c.Group = uint8(s.groups.of(i, now))
	}
	s.groups.add(int(c.Group), i)
	s.strategy.Observe(s.now, at, &c.Facts, Event{Kind: Added})
}

// Remove gives the slot back.
func (s *Scheduler) Remove(at Slot) {
	c := s.cells.at(at)
	if c.Flags&gone != 0 {
		return
	}
	s.unplace(at, c)
	s.strategy.Observe(s.now, at, &c.Facts, Event{Kind: Removed})
	s.groups.remove(int(c.Group), c.Est.Interval())
	c.Facts = Facts{Flags: gone}
	c.due = Tick(s.free)
	s.free = uint32(at)
	s.live--
}

// Edit changes what an operator may change: weight, pause, a fixed group or rate, tasks out after a restart. The rest is put back.
func (s *Scheduler) Edit(at Slot, change func(*Facts)) {
	c := s.cells.at(at)
	if c.Flags&gone != 0 {
		return
	}
	s.unplace(at, c)
	s.strategy.Observe(s.now, at, &c.Facts, Event{Kind: Removed})
	s.groups.remove(int(c.Group), c.Est.Interval())
	f := c.Facts
	change(&f)
	c.Weight, c.Out, c.Group = f.Weight, f.Out, f.Group
	c.Flags = f.Flags & (Known | Pinned | Paused | Denied)
	if f.Est.valid() {
		c.Est = f.Est
		c.Bucket = cycle.Update(c.Bucket, c.Est.Rate())
	}
	s.join(at, c)
	s.place(at, c)
}

// SetStrategy goes on with another strategy, new or with its state recovered, and the same facts.
func (s *Scheduler) SetStrategy(now Tick, strategy Strategy) {
	s.now = max(s.now, now)
	s.strategy = strategy
	s.start(strategy)
	for i := range s.cells.n {
		c := s.cells.at(Slot(i))
		if c.Flags&gone == 0 {
			c.forget()
			strategy.Observe(s.now, Slot(i), &c.Facts, Event{Kind: Added})
		}
	}
	if r, ok := strategy.(Resumer); ok {
		r.Resume(s.now)
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
	s.opt, s.minTicks = opt, max(1, minTicks)
	if l, ok := s.strategy.(Limited); ok {
		l.Limits(s.opt.Cap, s.minTicks)
	}
	s.Rerank()
	return nil
}

// Rerank has all slots ranked again, in the next calls of Next.
func (s *Scheduler) Rerank() { s.sweep = 0 }

// Observe takes in what became of a task, or a signal.
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
		c.Est.Visit(float64(now-before), e.Changed)
	}
	c.Bucket = cycle.Update(c.Bucket, c.Est.Rate())
	interval := c.Est.Interval()
	s.groups.remove(int(c.Group), old)
	if to := s.groups.of(interval, int(c.Group)); c.Flags&Pinned == 0 && to != int(c.Group) {
		s.strategy.Observe(now, at, &c.Facts, Event{Kind: Moved, From: c.Group})
		c.Group = uint8(to)
		if c.Epoch < waitEpoch {
			c.Subs, c.Succ, c.Anchor, c.Epoch = 0, 0, 0, 0 // its counters begin anew
		}
	}
	s.groups.add(int(c.Group), interval)
}

// Enough is what admit says instead of when to ask again: the slot stays in line, and so do those behind it, until Next is called again.
const Enough Tick = math.MinInt32

// Next takes the slots that are due, best first, and returns how many. admit is called for each: it makes the task, or says when to ask
// again, Enough if Next should end. Facts must not be kept by it; it must not call the scheduler.
func (s *Scheduler) Next(now Tick, load Load, admit func(Slot) (again Tick, ok bool)) int {
	s.now = max(s.now, now)
	if s.opt.Relearn > 0 && now-s.relearnt >= s.opt.Relearn {
		s.relearnt = now
		s.groups.relearn()
	}
	q := s.strategy.Quota(now, load)
	if q.Rerank {
		s.Rerank()
	}
	if s.sweep >= 0 {
		s.sweepSome()
	}
	if s.anyFound && (now > s.reordered || s.Ready() <= refreshReady) {
		s.reordered = now
		s.reorder()
	}
	s.wheel.advance(now, s.come)
	if q.Drift && now > s.refreshed {
		s.refreshed = now
		s.refresh()
	}
	room := load.Room
	if q.Max >= 0 && (room < 0 || q.Max < room) {
		room = q.Max
	}
	s.ready[0].floor, s.ready[1].floor = q.Floor, q.Floor
	var line sequence.Sequencer[readyItem] = ordered{&s.ready[0], &s.ready[1]}
	share, mixed := s.Share(load.New)
	if mixed {
		s.mix.Ratio = func() float64 { return share }
		line = &s.mix
	}
	taken, last := 0, float32(0)
	for looked := 0; taken != room; looked++ {
		if looked%readNext == 0 {
			s.touchNext()
		}
		top, ok := line.Next()
		if !ok {
			break
		}
		at := top.slot()
		c := s.cells.at(at)
		isNew := c.Flags&inNew != 0
		c.Flags &^= inReady | inNew
		again, ok := admit(at)
		if !ok && again == Enough {
			s.place(at, c)
			s.mix.Again(isNew)
			break
		}
		if !ok {
			s.wheel.add(at, c, max(again, now+1))
			s.mix.Again(isNew)
			continue
		}
		taken++
		if !mixed || !isNew {
			last = top.value()
		}
		s.strategy.Observe(now, at, &c.Facts, Event{Kind: Submitted})
		c.Submitted = now
		if c.Out < 255 {
			c.Out++
		}
		s.place(at, c)
	}
	short := taken == room && (s.ready[0].waits() || s.ready[1].waits())
	s.strategy.Taken(now, taken, last, short)
	return taken
}

// touchNext reads the cells of those that are likely to be taken next.
func (s *Scheduler) touchNext() {
	for k := range s.ready {
		r := &s.ready[k]
		for _, item := range r.heap[:min(readFirst, len(r.heap))] {
			s.cells.touch(item.slot())
		}
	}
}

// come is called for a slot that the calendar gives out.
func (s *Scheduler) come(at Slot, c *cell) { s.place(at, c) }

// rank is the strategy's word within the limits that hold for all.
func (s *Scheduler) rank(at Slot, c *cell) (value float32, again Tick) {
	earliest := s.now
	if c.Submitted != 0 {
		least := float64(s.minTicks)
		if s.opt.Cap > 0 {
			least = max(least, c.Est.Interval()/s.opt.Cap)
		}
		if c.Flags&Denied != 0 && c.Out == 0 {
			least = c.Est.Interval() * retryShare
		}
		earliest = c.Submitted + wholeTicks(least)
	}
	value, again = s.strategy.Rank(s.now, earliest, at, &c.Facts)
	if c.Submitted == 0 && value == math.MaxFloat32 && s.opt.Pending != nil {
		n := float64(max(s.opt.Pending(at), 0))
		value = float32(math.MaxFloat32 * (.5 + .5*n/(n+pendingHalf)))
	}
	return value, max(again, earliest)
}

// retryShare is the part of its change interval after which a channel whose task was refused or lost may be asked for again. Nobody crawled it, so
// that neither cap nor minimum interval holds it back; but the peers near it are still as busy a minute later.
const retryShare = 1. / 8

// pendingHalf only has to keep the values of ordinary numbers of pending pages apart.
const pendingHalf = 1000

// Found says that Options.Pending has changed for a slot. Among many it moves at the next tick, together with others.
func (s *Scheduler) Found(at Slot) {
	if c := s.cells.at(at); c.Submitted != 0 || c.Flags&inReady == 0 {
		return
	}
	for int(at>>6) >= len(s.found) {
		s.found = append(s.found, make([]uint64, s.cells.n>>6+1-len(s.found))...)
	}
	s.found[at>>6] |= 1 << (at & 63)
	s.anyFound = true
}

// reorder ranks those again of which something was found: one pass over the ready, as nobody knows where they stand.
func (s *Scheduler) reorder() {
	for k := range s.ready {
		r := &s.ready[k]
		for i := 0; i < len(r.heap); {
			at := r.heap[i].slot()
			if int(at>>6) >= len(s.found) || s.found[at>>6]&(1<<(at&63)) == 0 {
				i++
				continue
			}
			s.found[at>>6] &^= 1 << (at & 63) // and what has come to i is looked at too
			s.again(r, i)
		}
	}
	clear(s.found)
	s.anyFound = false
}

// place puts a slot that is not ready where it belongs: calendar, ready or nowhere.
func (s *Scheduler) place(at Slot, c *cell) {
	if c.Flags&(Paused|gone) != 0 || s.opt.MaxOut > 0 && int(c.Out) >= s.opt.MaxOut {
		if c.Flags&inWheel != 0 {
			s.wheel.remove(c)
		}
		return
	}
	value, again := s.rank(at, c)
	if c.Flags&inWheel != 0 {
		if again == c.due {
			return
		}
		s.wheel.remove(c)
	}
	if again <= s.wheel.at { // due within the time that the calendar has passed
		c.Flags |= inReady
		if c.Updated == 0 {
			c.Flags |= inNew
		}
		s.readyOf(c).push(at, value)
		return
	}
	s.wheel.add(at, c, again)
}

// readyOf is the queue that a ready slot is in.
func (s *Scheduler) readyOf(c *cell) *ready {
	if c.Flags&inNew != 0 {
		return &s.ready[1]
	}
	return &s.ready[0]
}

func (s *Scheduler) unplace(at Slot, c *cell) {
	if c.Flags&inWheel != 0 {
		s.wheel.remove(c)
	}
	if c.Flags&inReady != 0 {
		s.readyOf(c).remove(at)
		c.Flags &^= inReady | inNew
	}
}

// sweepSome ranks a part of all slots again.
func (s *Scheduler) sweepSome() {
	end := min(s.sweep+sweepCells, s.cells.n)
	for i := s.sweep; i < end; i++ {
		c := s.cells.at(Slot(i))
		if c.Flags&inReady == 0 {
			s.place(Slot(i), c)
		}
	}
	s.sweep = end
	if end == s.cells.n {
		s.sweep = -1
		for k := range s.ready {
			for i := len(s.ready[k].heap) - 1; i >= 0; i-- {
				s.again(&s.ready[k], i)
			}
		}
	}
}

// refresh brings the values of some ready slots up to date, in turn; of all of them when they are few.
func (s *Scheduler) refresh() {
	for k := range s.ready {
		r := &s.ready[k]
		n := len(r.heap)
		for i := range min(n, max(n/refreshShare, refreshFew), refreshReady/len(s.ready)) {
			if r.cursor <= 0 {
				r.cursor = len(r.heap)
			}
			if i%readNext == 0 {
				for _, item := range r.heap[max(min(r.cursor, len(r.heap))-readNext, 0):min(r.cursor, len(r.heap))] {
					s.cells.touch(item.slot())
				}
			}
			r.cursor--
			if r.cursor < len(r.heap) {
				s.again(r, r.cursor)
			}
		}
	}
}

// again ranks ready slot i again.
func (s *Scheduler) again(r *ready, i int) {
	at := r.heap[i].slot()
	c := s.cells.at(at)
	value, again := s.rank(at, c)
	if again > s.now {
		r.removeAt(i)
		c.Flags &^= inReady | inNew
		s.wheel.add(at, c, again)
		return
	}
	r.heap[i] = newReadyItem(value, at)
	r.fix(i)
}

// wholeTicks rounds up, forgiving the last digits of a float32.
func wholeTicks(t float64) Tick {
	return Tick(min(max(math.Ceil(t*(1-1e-5)), 1), float64(Far/4)))
}
