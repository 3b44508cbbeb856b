package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"shoal/internal/plain"
	"shoal/recrawl"
)

// ErrAsk is returned for an operator's wish that cannot be.
var ErrAsk = errors.New("manager: cannot do that")

// What the database keeps of the operator's choices; and of each strategy that was in force before, the scheduler's state of then.
const (
	stateChoice = "manager/strategy"
	stateLimits = "manager/limits"
	stateLeft   = "recrawl/left/" // and the strategy's name
)

// Limits hold for every strategy. A refused or lost task may be asked for again sooner, since the channel was not
// crawled.
type Limits struct {
	Cap         float64       `json:"cap"`             // a channel is recrawled at most so many times its change rate; 0: no limit
	MinInterval time.Duration `json:"min_interval_ns"` // and never sooner than this after its last task, in whole ticks; 0: a tick
	// Weights say what a channel counts for the strategies that look at weights, times its own; "": by pages.
	Weights recrawl.Weights `json:"weights"`
}

// Limits beyond these are slips: with them next to nothing is recrawled.
const (
	leastCap     = .5
	mostCap      = 1e6
	mostInterval = 366 * 24 * time.Hour
)

// Validate says why an operator cannot have these limits.
func (l Limits) Validate(tick time.Duration) error {
	switch err := l.sound(); {
	case err != nil:
		return err
	case l.Cap > mostCap:
		return fmt.Errorf("%w: a channel is recrawled at most %v times its change rate: want 0 (no limit), or %g to 1,000,000", ErrAsk, l.Cap, leastCap)
	case l.Cap > 0 && l.Cap < leastCap:
		return fmt.Errorf("%w: at most %g times its change rate would leave nearly every copy stale: want 0 (no limit), or %g to 1,000,000", ErrAsk, l.Cap, leastCap)
	case l.MinInterval < 0, l.MinInterval > 0 && l.MinInterval < tick:
		return fmt.Errorf("%w: a minimum interval of %v is shorter than a tick, the unit of the manager's timetable: want %v to %v (a year), or 0 for a tick", ErrAsk, l.MinInterval, tick, mostInterval)
	case l.MinInterval > mostInterval:
		return fmt.Errorf("%w: a channel would be left alone for %v after each crawl: want %v to %v (a year), or 0 for a tick", ErrAsk, l.MinInterval, tick, mostInterval)
	}
	return nil
}

// sound says why nobody can work by these limits. An earlier version may have taken what is a slip.
func (l Limits) sound() error {
	if !(l.Cap >= 0) || math.IsInf(l.Cap, 0) {
		return fmt.Errorf("%w: a channel is recrawled at most %v times its change rate: want 0 (no limit), or %g to 1,000,000", ErrAsk, l.Cap, leastCap)
	}
	if err := l.Weights.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrAsk, err)
	}
	return nil
}

// kept are limits as the timetable keeps them, in whole ticks: what an operator is told is what holds. An earlier version took intervals of less than a tick and of more than a year.
func (l Limits) kept(tick time.Duration) Limits {
	d := min(max(l.MinInterval, 0), mostInterval)
	l.MinInterval = min((d + tick - 1).Truncate(tick), mostInterval.Truncate(tick))
	return l
}

// ticks is the minimum interval in whole ticks.
func (l Limits) ticks(tick time.Duration) recrawl.Tick {
	return recrawl.Tick((l.MinInterval + tick - 1) / tick)
}

// limits are those of the configuration.
func (c *Config) limits() Limits {
	return Limits{c.Options.Cap, time.Duration(c.Options.MinTicks) * c.Tick, recrawl.PageWeights}
}

// keptLimits are those that an operator set, if any; else otherwise.
func keptLimits(ctx context.Context, st Store, otherwise Limits, tick time.Duration) (Limits, error) {
	b, err := st.State(ctx, stateLimits)
	if err != nil || b == nil {
		return otherwise, err
	}
	l := otherwise
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("the limits in the database are damaged: %w", err)
	}
	l = l.kept(tick)
	return l, l.sound()
}

// UseLimits changes what holds for every strategy. It is kept over a restart.
func (u *tuning) UseLimits(ctx context.Context, l Limits) error {
	l.Weights = cmp.Or(l.Weights, recrawl.PageWeights)
	if err := l.Validate(u.cfg.Tick); err != nil {
		return err
	}
	l = l.kept(u.cfg.Tick)
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := u.cfg.Store.PutState(ctx, u.epoch, stateLimits, b); err != nil {
		return fmt.Errorf("keep the limits: %w", err)
	}
	var bad error
	anew := false
	err = u.surely(func(time.Time) {
		if bad = u.sched.SetLimits(l.Cap, l.ticks(u.cfg.Tick)); bad == nil {
			anew = u.limits.Weights != l.Weights
			u.limits = l
		}
	})
	if err == nil && anew {
		err = u.weighAll(context.WithoutCancel(ctx))
	}
	if err = errors.Join(err, bad); err == nil {
		err = u.tell(ctx, noteLimits, noted{Limits: &l})
	}
	return err
}

// StrategyChoice is a strategy with its parameters; zero ones mean its own defaults.
type StrategyChoice struct {
	Name   string         `json:"name"`
	Params recrawl.Params `json:"params"`
	// NewShare is the share of room that channels never crawled get while others wait too, in [0, 1). Zero: what the strategy says.
	NewShare float64 `json:"new_share"`
}

// strategy makes it; what it leaves open the configuration may say.
func (c StrategyChoice) strategy(cfg *Config) (recrawl.Strategy, error) {
	p := c.Params
	if p.PlanEvery == 0 {
		p.PlanEvery = cfg.PlanEvery
	}
	return recrawl.New(c.Name, p)
}

// Validate says why an operator cannot have this strategy, who is told of parameters that it would not look at, too.
func (c StrategyChoice) Validate() error {
	if err := checkShare(c.NewShare); err != nil {
		return err
	}
	if _, err := recrawl.New(c.Name, c.Params); err != nil {
		return err
	}
	return c.Params.Fits(c.Name)
}

// StrategyInfo is what an operator sees of the strategy in force.
type StrategyInfo struct {
	StrategyChoice
	Limits     Limits
	Names      []string // to choose from
	Intervals  []time.Duration
	GroupSizes []int
	Tick       time.Duration
	Sequencers Sequencers
	// Plan is what a strategy that plans has planned; nil: it does not, or not yet.
	Plan *PlanInfo
	// Silent are the machines of managers that did not answer when they were asked for their part. It is missing from what was taken, waits and is planned.
	Silent []string
}

// PlanInfo is a plan in force, with its times.
type PlanInfo struct {
	recrawl.PlanReport
	MadeAt time.Time
	NextAt time.Time
}

// Outlook is what a strategy would do in the time ahead.
type Outlook struct {
	Strategy  string
	Tasks     int     // in the time ahead
	New       int     // of channels never crawled
	ByGroup   []int   // fastest first
	Freshness float64 // expected share of fresh channels at the end
	Intervals []time.Duration
}

// Trial compares the strategy in force with another one, on a copy of what was learnt.
type Trial struct {
	Ahead    time.Duration
	Channels int // looked at
	Of       int
	Capacity float64 // taken from what the swarm did last
	Now      Outlook
	Then     Outlook
}

// keptChoice is the strategy that an operator chose while a manager ran, if any.
func keptChoice(ctx context.Context, st Store) (c StrategyChoice, ok bool, err error) {
	b, err := st.State(ctx, stateChoice)
	if err != nil || b == nil {
		return c, false, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, false, fmt.Errorf("the strategy's choice in the database is damaged: %w", err)
	}
	return c, true, nil
}

// tuning is the strategy in force, with its parameters, its plans and the limits that hold for every strategy. Owned by the loop.
type tuning struct {
	*core
	keep      *keeper
	near      *nearness
	choice    StrategyChoice
	limits    Limits
	planning  bool // a plan is being made
	recallDue bool // the strategy is to be given what the database keeps of channels' visits
	future    future
}

// firstChoice is the strategy that a manager begins with.
func firstChoice(ctx context.Context, cfg *Config) (StrategyChoice, error) {
	choice := StrategyChoice{cfg.Strategy, cfg.Params, cfg.NewShare}
	if !cfg.KeptStrategy {
		return choice, nil
	}
	kept, ok, err := keptChoice(ctx, cfg.Store)
	if err != nil || !ok {
		return choice, err
	}
	if cfg.NewShare > 0 {
		kept.NewShare = cfg.NewShare
	}
	return kept, nil
}

// Strategy is the one in force.
func (u *tuning) Strategy(ctx context.Context) (StrategyInfo, error) {
	out := StrategyInfo{Names: recrawl.Names(), Tick: u.cfg.Tick}
	err := u.onLoop(ctx, func(time.Time) {
		out.StrategyChoice, out.Limits = u.choice, u.limits
		out.Sequencers = u.sequencers()
		if p := u.sched.Strategy().Report(); p != nil {
			out.Plan = &PlanInfo{*p, u.clock.Time(p.At), u.clock.Time(p.Next)}
		}
		out.Intervals = u.intervals()
		g := u.sched.Groups()
		for i := range g.K() {
			out.GroupSizes = append(out.GroupSizes, g.Count(i))
		}
	})
	return out, err
}

// UseStrategy goes on with another strategy, or other parameters, and the same facts; one that was in force before goes on with what it had learnt then. The
// choice is kept over a restart.
func (u *tuning) UseStrategy(ctx context.Context, c StrategyChoice) error {
	if err := c.Validate(); err != nil {
		return err
	}
	strategy, err := c.strategy(&u.cfg)
	if err != nil {
		return err
	}
	var was []byte
	if err := u.onLoop(ctx, func(time.Time) { was = u.sched.AppendState(nil) }); err != nil {
		return err
	}
	if strategy, err = u.recovered(ctx, c, strategy, was); err != nil {
		return err
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := u.cfg.Store.PutState(ctx, u.epoch, stateChoice, b); err != nil {
		return fmt.Errorf("keep the choice of strategy: %w", err)
	}
	if err := u.tell(ctx, noteStrategy, noted{Strategy: &c}); err != nil {
		return err
	}
	return u.surely(func(now time.Time) {
		same := u.choice.Name == c.Name && u.choice.Params == c.Params
		u.choice = c
		u.machine.SetNewShare(c.NewShare)
		if same { // only the share of new channels: what was learnt and planned stays
			return
		}
		u.sched.SetStrategy(u.clock.At(now), strategy)
		u.keep.hurry()
		u.recallDue = true
	})
}

// recovered puts away what the strategy in force has learnt, and gives the next one what it knew when it was in force.
func (u *tuning) recovered(ctx context.Context, c StrategyChoice, strategy recrawl.Strategy, was []byte) (recrawl.Strategy, error) {
	if name := recrawl.StateOf(was); name != c.Name {
		if err := u.cfg.Store.PutState(ctx, u.epoch, stateLeft+name, was); err != nil {
			return nil, fmt.Errorf("keep what strategy %s has learnt: %w", name, err)
		}
	}
	return u.informed(ctx, c, strategy, was)
}

// informed gives a strategy what it has learnt: it is in force with other parameters, was is the scheduler's state, or it was in force before.
func (u *tuning) informed(ctx context.Context, c StrategyChoice, strategy recrawl.Strategy, was []byte) (recrawl.Strategy, error) {
	left := was
	if recrawl.StateOf(was) != c.Name {
		var err error
		if left, err = u.cfg.Store.State(ctx, stateLeft+c.Name); err != nil {
			return nil, fmt.Errorf("read what strategy %s had learnt: %w", c.Name, err)
		}
	}
	if left == nil {
		return strategy, nil
	}
	if err := recrawl.Recover(strategy, left); err != nil {
		u.log.Warn("the strategy begins anew", "strategy", c.Name, "err", err)
		return c.strategy(&u.cfg)
	}
	return strategy, nil
}

const (
	trialMost  = 200_000 // channels that a trial copies
	trialTicks = 60
)

// TryStrategy tells what a strategy would do in the next 60 ticks, beside the one in force, on a copy of what was learnt: nothing changes.
func (u *tuning) TryStrategy(ctx context.Context, c StrategyChoice) (Trial, error) {
	if err := c.Validate(); err != nil {
		return Trial{}, err
	}
	then, err := c.strategy(&u.cfg)
	if err != nil {
		return Trial{}, err
	}
	var t trial
	err = u.onLoop(ctx, func(now time.Time) { t = u.sample(now) })
	if err != nil {
		return Trial{}, err
	}
	cur, err := t.choice.strategy(&u.cfg)
	if err != nil {
		return Trial{}, err
	}
	out := Trial{Ahead: trialTicks * u.cfg.Tick, Channels: len(t.facts), Of: t.of, Capacity: t.capacity}
	if out.Now, err = t.run(ctx, cur, nil, t.choice.NewShare, u.cfg); err != nil {
		return Trial{}, err
	}
	if t.choice.Name == c.Name && t.choice.Params == c.Params {
		then = nil // only the share of new channels
	} else if then, err = u.informed(ctx, c, then, t.state); err != nil {
		return Trial{}, err
	}
	if cur, err = t.choice.strategy(&u.cfg); err != nil {
		return Trial{}, err
	}
	out.Then, err = t.run(ctx, cur, then, c.NewShare, u.cfg)
	return out, err
}

// trial is the copy.
type trial struct {
	choice   StrategyChoice
	facts    []recrawl.Facts
	of       int
	state    []byte
	opt      recrawl.Options
	capacity float64 // tasks a tick, of all channels
	at       recrawl.Tick
}

// judgeClock has nothing handed out while the clock shows much less than it has shown since the start.
func (u *tuning) judgeClock(now time.Time) {
	text := ""
	if ahead := u.sched.Ahead(u.clock.At(now)); ahead > 0 {
		text = fmt.Sprintf("Nothing new is handed out: this computer's clock has shown a time that is %s later than now. Set it right; if it is right now, restart the manager once with --clock-right, so that what was dated then is not left until that time comes.", plain.Span(time.Duration(ahead)*u.cfg.Tick))
	}
	u.tally.notice(noticeClock, text)
	u.judgeDates(now)
}

// ownOptions are the manager's for a scheduler that does not run on the loop, and has slots of its own: it asks none of the loop's tables.
func ownOptions(o recrawl.Options) recrawl.Options {
	o.Pending, o.Ahead = nil, nil
	return o
}

// sample copies every n-th channel. Called on the loop.
func (u *tuning) sample(now time.Time) trial {
	t := trial{opt: ownOptions(u.cfg.Options), choice: u.choice, of: u.sched.Len(), state: u.sched.AppendState(nil), at: u.clock.At(now)}
	t.opt.Cap, t.opt.MinTicks = u.limits.Cap, u.limits.ticks(u.cfg.Tick)
	step := max((u.table.Len()+trialMost-1)/trialMost, 1)
	for s := 0; s < u.table.Len(); s += step {
		if u.table.Used(recrawl.Slot(s)) {
			t.facts = append(t.facts, u.sched.Facts(recrawl.Slot(s)))
		}
	}
	up, _, _ := u.history.rates.last(now, u.tally.updates, u.tally.pages, u.counts().Refused)
	t.capacity = up * u.cfg.Tick.Minutes()
	if u.near.peers() == 0 {
		t.capacity = 0 // no peer crawls, whatever the last minute brought
		return t
	}
	if t.capacity <= 0 {
		t.capacity = float64(max(u.machine.Room(now), 0))
	}
	if t.capacity <= 0 {
		t.capacity = float64(t.of) / trialTicks
	}
	return t
}

// run lets a strategy hand tasks out for some ticks: that in force, or another one that takes its place, as UseStrategy does it. A task ends in the tick in
// which it began; a channel is found changed if that was more likely than not. Room that the strategy leaves is for what is stale, as idle threads are.
func (t *trial) run(ctx context.Context, strategy, instead recrawl.Strategy, newShare float64, cfg Config) (Outlook, error) {
	out := Outlook{Strategy: strategy.Name()}
	sched, err := recrawl.RestoreScheduler(t.at, strategy, t.opt, t.state)
	if err != nil {
		return out, err
	}
	for _, f := range t.facts {
		f.Out = 0
		sched.Add(f)
	}
	if instead != nil {
		sched.SetStrategy(t.at, instead)
		strategy, out.Strategy = instead, instead.Name()
	}
	share := float64(len(t.facts)) / float64(max(t.of, 1))
	owed := 0.0
	out.ByGroup = make([]int, sched.Groups().K())
	var due []recrawl.Slot
	for now := t.at; now < t.at+trialTicks; now++ {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if plan := strategy.Plan(now); plan != nil {
			adopt, err := plan(ctx, sched.Snapshot())
			if err != nil {
				return out, fmt.Errorf("plan: %w", err)
			}
			adopt()
			sched.Rerank()
		}
		owed += t.capacity * share
		due = takenNow(sched, now, recrawl.Load{Room: int(owed), New: newShare}, due[:0])
		owed = math.Min(owed-float64(len(due)), t.capacity*share+1)
		for _, s := range due {
			f := sched.Facts(s)
			out.Tasks++
			if f.Updated == 0 {
				out.New++
			}
			if int(f.Group) < len(out.ByGroup) {
				out.ByGroup[f.Group]++
			}
			sched.Observe(now, s, recrawl.Event{Kind: recrawl.Accepted})
			changed := f.Updated == 0 || f.Est.Rate()*float64(now-f.Updated) > math.Ln2
			sched.Observe(now, s, recrawl.Event{Kind: recrawl.Updated, Changed: changed, Wait: 1, Service: f.Service.Float()})
		}
	}
	end, seen := t.at+trialTicks, 0
	for i := range t.facts {
		f := sched.Facts(recrawl.Slot(i))
		if f.Flags&recrawl.Paused != 0 {
			continue
		}
		seen++
		if f.Updated > 0 {
			out.Freshness += math.Exp(-f.Est.Rate() * float64(max(end-f.Updated, 0)))
		}
	}
	out.Freshness /= float64(max(seen, 1))
	for _, iv := range sched.Intervals() {
		out.Intervals = append(out.Intervals, time.Duration(iv)*cfg.Tick)
	}
	if share > 0 && share < 1 { // of all channels
		out.Tasks, out.New = int(float64(out.Tasks)/share), int(float64(out.New)/share)
		for i := range out.ByGroup {
			out.ByGroup[i] = int(float64(out.ByGroup[i]) / share)
		}
	}
	return out, nil
}

const trialLooks = 64 // how often a trial asks in a tick for what is stale, at most

// takenNow are the slots that a scheduler gives out for some room, added to others.
func takenNow(sched *recrawl.Scheduler, now recrawl.Tick, load recrawl.Load, slots []recrawl.Slot) []recrawl.Slot {
	take := func(s recrawl.Slot) (recrawl.Tick, bool) {
		slots = append(slots, s)
		return 0, true
	}
	left := load.Room - sched.Next(now, load, take)
	for range trialLooks { // each time it looks at a part of all slots
		if left <= 0 {
			break
		}
		left -= sched.Spare(now, left, func(recrawl.Slot) bool { return true }, take)
	}
	return slots
}
