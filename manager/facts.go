package manager

import (
	"context"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/recrawl"
)

// PlanBasis is what a plan of the channels starts from, beside the channels themselves.
type PlanBasis struct {
	Now      recrawl.Tick  `json:"now"`
	Step     time.Duration `json:"tick_ns"`
	Every    recrawl.Tick  `json:"every"` // the planning interval of strategy optimal
	Cap      float64       `json:"cap"`   // a channel is recrawled at most so many times its change rate; 0: no limit
	MinTicks recrawl.Tick  `json:"min_ticks"`
	Capacity float64       `json:"capacity,omitempty"` // busy threads, if the strategy in force has measured them
}

// PlanChannel is one channel of a plan.
type PlanChannel struct {
	ID      channel.ID `json:"id"`
	Name    string     `json:"name"`
	Pages   int        `json:"pages"`             // of its stored copy
	Facts   []byte     `json:"facts"`             // recrawl.Facts.AppendState
	History []byte     `json:"history,omitempty"` // its last visits, for recrawl.Choose
}

// PlanBasis tells what a plan starts from. step is a stopped manager's tick; a running one knows its own.
func (d *Desk) PlanBasis(ctx context.Context, step time.Duration) (PlanBasis, error) {
	def := recrawl.DefaultOptions()
	b := PlanBasis{Step: step, Every: recrawl.PlanDay, Cap: def.Cap, MinTicks: def.MinTicks}
	if d.m != nil {
		b.Step = d.m.cfg.Tick
		return b, d.m.onLoop(ctx, func(now time.Time) {
			b.Now, b.Cap, b.MinTicks = d.m.clock.At(now), d.m.limits.Cap, d.m.limits.ticks(b.Step)
			b.Every = recrawl.Tick(d.m.modelDay())
			if p := d.m.sched.Strategy().Report(); p != nil {
				b.Capacity = p.Capacity
			}
		})
	}
	if !(b.Step > 0) {
		return b, fmt.Errorf("%w: a tick of %v, want a positive time", ErrAsk, b.Step)
	}
	limits, err := keptLimits(ctx, d.store, Limits{b.Cap, time.Duration(b.MinTicks) * b.Step, recrawl.PageWeights})
	if err != nil {
		return b, err
	}
	b.Cap, b.MinTicks = limits.Cap, limits.ticks(b.Step)
	clock, err := readClock(ctx, d.store, b.Step, d.now())
	b.Now = clock.At(d.now())
	return b, err
}

// PlanChannels calls f with every channel that is crawled, and what the scheduler knew of it when it last wrote, which a running manager does with every report.
func (d *Desk) PlanChannels(ctx context.Context, f func(PlanChannel) error) error {
	prior := recrawl.DefaultOptions().Prior
	if d.m != nil {
		prior = d.m.cfg.Options.Prior
	}
	for after := channel.ID(0); ; {
		chs, err := d.store.List(ctx, after, listBatch)
		if err != nil {
			return fmt.Errorf("read channels: %w", err)
		}
		if len(chs) == 0 {
			return nil
		}
		for i := range chs {
			ch := &chs[i]
			if after = ch.ID; ch.State != channel.Active {
				continue
			}
			facts := recrawl.Facts{Est: prior}
			if b := ch.Learnt.EstimatorBlob; len(b) > 0 {
				if err := facts.Restore(b); err != nil {
					return fmt.Errorf("channel %d: %w", ch.ID, err)
				}
			}
			if facts.Weight == 0 {
				facts.Weight = ch.Settings.Weight
			}
			name := ch.Scope.Host
			if len(ch.Scope.Dirs) > 0 {
				name += ch.Scope.Dirs[0]
			}
			if err := f(PlanChannel{ID: ch.ID, Name: name, Pages: ch.Learnt.Pages, Facts: facts.AppendState(nil), History: ch.Learnt.History}); err != nil {
				return err
			}
		}
	}
}

// readClock is the clock of the scheduler that worked on a database; a new one where none did.
func readClock(ctx context.Context, st Store, step time.Duration, now time.Time) (recrawl.Clock, error) {
	clock := recrawl.Clock{Epoch: now, Step: step}
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
