package manager

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"shoal/recrawl"
)

// PlanBasis is what a plan of the channels starts from, beside the channels themselves.
type PlanBasis struct {
	Now      recrawl.Tick
	Step     time.Duration    // a tick
	Every    recrawl.Tick     // the planning interval of strategy optimal
	Cap      float64          // a channel is recrawled at most so many times its change rate; 0: no limit
	MinTicks recrawl.Tick     // and never sooner than this after its last task
	Capacity float64          // busy threads, if the strategy in force has measured them
	Prior    recrawl.Estimate // of channels never crawled
}

// PlanBasis tells what a plan starts from.
func (u *tuning) PlanBasis(ctx context.Context) (PlanBasis, error) {
	b := PlanBasis{Step: u.cfg.Tick}
	return b, u.onLoop(ctx, func(now time.Time) {
		b.Now, b.Cap, b.MinTicks = u.clock.At(now), u.limits.Cap, u.limits.ticks(b.Step)
		b.Every, b.Prior = recrawl.Tick(u.modelDay()), u.sched.Prior()
		if p := u.sched.Strategy().Report(); p != nil {
			b.Capacity = p.Capacity
		}
	})
}

// StoppedPlanBasis tells the same of a stopped manager's database. With tells the manager's tick (Step), and how often it plans and how many ticks are between two
// tasks of a channel, where those are not the usual ones.
func StoppedPlanBasis(ctx context.Context, st Store, with PlanBasis, now time.Time) (PlanBasis, error) {
	def, step := recrawl.DefaultOptions(), with.Step
	b := PlanBasis{Step: step, Every: cmp.Or(with.Every, recrawl.PlanDay), Cap: def.Cap, MinTicks: cmp.Or(with.MinTicks, def.MinTicks), Prior: def.Prior}
	if step <= 0 || b.Every < 0 || b.MinTicks < 0 {
		return b, fmt.Errorf("%w: a tick of %v, %d ticks between two plans and %d between two crawls: want positive ones", ErrAsk, step, b.Every, b.MinTicks)
	}
	limits, err := keptLimits(ctx, st, Limits{b.Cap, time.Duration(b.MinTicks) * step, recrawl.PageWeights}, step)
	if err != nil {
		return b, err
	}
	b.Cap, b.MinTicks = limits.Cap, limits.ticks(step)
	clock, err := readClock(ctx, st, step, now)
	b.Now = clock.At(now)
	return b, err
}

// readClock is the clock of the scheduler that worked on a database; a new one where none did.
func readClock(ctx context.Context, st Store, step time.Duration, now time.Time) (recrawl.Clock, error) {
	clock := recrawl.Clock{Epoch: now.Round(0), Step: step} // ticks pass while the computer sleeps
	epoch, err := st.State(ctx, stateEpoch)
	if err != nil {
		return clock, fmt.Errorf("read the scheduler's epoch: %w", err)
	}
	if epoch != nil {
		if err := clock.Epoch.UnmarshalBinary(epoch); err != nil {
			return clock, fmt.Errorf("the scheduler's epoch in the database is damaged: %w", err)
		}
	}
	return clock, nil
}

// modelDay is the time after which a channel's changes may repeat themselves, in ticks, as strategy optimal takes it. Called on the loop.
func (u *tuning) modelDay() float64 {
	return cmp.Or(u.choice.Params.PlanEvery, u.cfg.PlanEvery, recrawl.PlanDay)
}
