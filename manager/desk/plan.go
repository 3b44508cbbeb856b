package desk

import (
	"context"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/manager"
	"shoal/recrawl"
)

// PlanBasis is what a plan of the channels starts from, beside the channels themselves. Its times are in ticks.
type PlanBasis struct {
	Now      recrawl.Tick `json:"now"`
	Tick     Seconds      `json:"tick_s"`
	Channels int          `json:"channels"` // about so many follow
	Every    recrawl.Tick `json:"every"`    // the planning interval of strategy optimal
	Cap      float64      `json:"cap"`      // a channel is recrawled at most so many times its change rate; 0: no limit
	MinTicks recrawl.Tick `json:"min_ticks"`
	Capacity float64      `json:"capacity,omitempty"` // busy threads, if the strategy in force has measured them
}

// PlanChannel is one channel of a plan.
type PlanChannel struct {
	ID      channel.ID `json:"id"`
	Name    string     `json:"name"`
	Pages   int        `json:"pages"`             // of its stored copy
	Facts   []byte     `json:"facts"`             // recrawl.Facts.AppendState
	History []byte     `json:"history,omitempty"` // its last visits, for recrawl.Choose
}

// StoppedPace is what a stopped manager does not tell; a running one knows its own.
type StoppedPace struct {
	Tick     time.Duration
	Every    recrawl.Tick // the planning interval of strategy optimal; 0: the usual one
	MinTicks recrawl.Tick // between two tasks of a channel, unless an operator has set it; 0: the usual ones
}

func (d *Desk) planBasis(ctx context.Context, pace StoppedPace) (manager.PlanBasis, error) {
	if d.m != nil {
		return d.m.PlanBasis(ctx)
	}
	return manager.StoppedPlanBasis(ctx, d.store, manager.PlanBasis{Step: pace.Tick, Every: pace.Every, MinTicks: pace.MinTicks}, d.cfg.Now())
}

// PlanBasis tells what a plan starts from.
func (d *Desk) PlanBasis(ctx context.Context, pace StoppedPace) (PlanBasis, error) {
	b, err := d.planBasis(ctx, pace)
	out := PlanBasis{Now: b.Now, Tick: Seconds(b.Step), Every: b.Every, Cap: b.Cap, MinTicks: b.MinTicks, Capacity: b.Capacity}
	if d.m != nil {
		out.Channels = allChannels(d)
	}
	return out, err
}

// PlanChannels calls f with every channel that is crawled, and what the scheduler knew of it when it last wrote, which a running manager does
// with every report.
func (d *Desk) PlanChannels(ctx context.Context, f func(PlanChannel) error) error {
	basis, err := d.planBasis(ctx, StoppedPace{Tick: time.Minute})
	if err != nil {
		return err
	}
	for after := channel.ID(0); ; {
		chs, err := d.store.List(ctx, after, batch)
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
			facts := recrawl.Facts{Est: basis.Prior}
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
