package manager

import (
	"context"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/recrawl"
)

// plan lets the strategy plan on a copy of the facts, beside the loop, when its next plan is due. The loop takes the plan up, unless the
// strategy was exchanged meanwhile.
func (u *tuning) plan(ctx context.Context, now time.Time) {
	if u.planning {
		return
	}
	strategy := u.sched.Strategy()
	plan := strategy.Plan(u.clock.At(now))
	if plan == nil {
		return
	}
	u.planning = true
	facts := u.sched.Snapshot()
	u.beside.Go(func() {
		adopt, err := plan(ctx, facts)
		_ = u.do(ctx, func(time.Time) { // fails only when the manager ends
			u.planning = false
			switch {
			case err != nil:
				u.tally.notice("plan", "The strategy's plan could not be made; it goes on without: "+err.Error())
				u.log.Error("plan", "strategy", strategy.Name(), "err", err)
			case u.sched.Strategy() == strategy:
				u.tally.notice("plan", "")
				adopt()
				u.sched.Rerank()
			}
		})
	})
}

const recallBatch = 500 // channels whose histories are given to the strategy at a time

// recall gives the strategy the channels' histories of visits from the database, if it has a use for them. It does so beside the loop, after
// a start and when a strategy is taken up.
func (u *tuning) recall(ctx context.Context) {
	if !u.recallDue {
		return
	}
	u.recallDue = false
	strategy := u.sched.Strategy()
	if strategy.Day() == 0 {
		return
	}
	u.beside.Go(func() {
		if err := u.recallAll(ctx, strategy); err != nil && ctx.Err() == nil {
			u.log.Warn("channels' histories are not all read; the strategy learns them anew", "err", err)
		}
	})
}

func (u *tuning) recallAll(ctx context.Context, strategy recrawl.Strategy) error {
	type memory struct {
		id      channel.ID
		history []byte
		facts   recrawl.Facts
		chosen  recrawl.Chosen
	}
	for after := channel.ID(0); ctx.Err() == nil; {
		chs, err := u.cfg.Store.List(ctx, after, recallBatch)
		if err != nil || len(chs) == 0 {
			return err
		}
		var batch []memory
		for i := range chs {
			after = chs[i].ID
			l := &chs[i].Learnt
			if len(l.History) == 0 || len(l.EstimatorBlob) == 0 {
				continue
			}
			it := memory{id: after, history: l.History}
			if err := it.facts.Restore(l.EstimatorBlob); err != nil {
				return fmt.Errorf("channel %d: %w", after, err)
			}
			it.chosen = recrawl.ChooseFast(it.history, &it.facts, strategy.Day())
			batch = append(batch, it)
		}
		stale := false
		if err := u.do(ctx, func(time.Time) {
			if stale = u.sched.Strategy() != strategy; stale {
				return
			}
			for i := range batch {
				if s, ok := u.table.Find(batch[i].id); ok {
					strategy.Recall(s, &batch[i].facts, batch[i].history, batch[i].chosen)
				}
			}
		}); err != nil || stale {
			return err
		}
	}
	return ctx.Err()
}
