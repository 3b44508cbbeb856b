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
func (m *Manager) plan(now time.Time) {
	if m.planning {
		return
	}
	strategy := m.sched.Strategy()
	plan := strategy.Plan(m.clock.At(now))
	if plan == nil {
		return
	}
	m.planning = true
	facts := m.sched.Snapshot()
	m.wg.Go(func() {
		adopt, err := plan(m.life, facts)
		_ = m.do(m.life, func(time.Time) { // fails only when the manager ends
			m.planning = false
			switch {
			case err != nil:
				m.setNotice("plan", "The strategy's plan could not be made; it goes on without: "+err.Error())
				m.log.Error("plan", "strategy", strategy.Name(), "err", err)
			case m.sched.Strategy() == strategy:
				m.setNotice("plan", "")
				adopt()
				m.sched.Rerank()
			}
		})
	})
}

const recallBatch = 500 // channels whose histories are given to the strategy at a time

// recall gives the strategy the channels' histories of visits from the database, if it has a use for them. It does so beside the loop, after
// a start and when the strategy is taken up.
func (m *Manager) recall() {
	strategy := m.sched.Strategy()
	if strategy.Day() == 0 {
		return
	}
	m.wg.Go(func() {
		if err := m.recallAll(m.life, strategy); err != nil && m.life.Err() == nil {
			m.log.Warn("channels' histories are not all read; the strategy learns them anew", "err", err)
		}
	})
}

func (m *Manager) recallAll(ctx context.Context, strategy recrawl.Strategy) error {
	type memory struct {
		id      channel.ID
		history []byte
		facts   recrawl.Facts
		chosen  recrawl.Chosen
	}
	for after := channel.ID(0); ctx.Err() == nil; {
		chs, err := m.cfg.Store.List(ctx, after, recallBatch)
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
		if err := m.do(ctx, func(time.Time) {
			if stale = m.sched.Strategy() != strategy; stale {
				return
			}
			for i := range batch {
				if s, ok := m.table.Find(batch[i].id); ok {
					strategy.Recall(s, &batch[i].facts, batch[i].history, batch[i].chosen)
				}
			}
		}); err != nil || stale {
			return err
		}
	}
	return ctx.Err()
}
