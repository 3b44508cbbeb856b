package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// stateEpoch and stateStrategy name what the database keeps for the scheduler.
const (
	stateEpoch    = "recrawl/epoch"
	stateStrategy = "recrawl/strategy"
)

// restore builds what the loop owns from the database.
func (m *Manager) restore(ctx context.Context, now time.Time, strategy recrawl.Strategy) error {
	st := m.cfg.Store
	var err error
	if m.epoch, err = st.Take(ctx); err != nil {
		return fmt.Errorf("take the channels over: %w", err)
	}
	if m.clock, err = readClock(ctx, st, m.cfg.Tick, now); err != nil {
		return err
	}
	first := m.clock.Epoch.Equal(now)
	if !first && m.unbegun(now) {
		m.log.Warn("the clock was ahead when this network was first started: it counts from now on", "ahead", m.clock.Epoch.Sub(now).Round(time.Second))
		first = true
	}
	if first {
		if err := m.countFrom(ctx, now); err != nil {
			return err
		}
	}
	if b, err := st.State(ctx, stateDiscovered); err != nil {
		return fmt.Errorf("read how many channels were discovered: %w", err)
	} else if m.find.discovered, err = parseDiscovered(b); err != nil {
		return err
	}
	if m.keep.cursor, err = st.Cursor(ctx, FeedName); err != nil {
		return fmt.Errorf("read the feed's cursor: %w", err)
	}
	if m.sched, err = m.scheduler(ctx, now, strategy); err != nil {
		return err
	}
	m.machine = dispatch.New(now, dispatch.Config{
		Clock: m.clock, Terms: m.cfg.Terms, MaxOut: m.cfg.MaxOut, Batch: maxBatch, Queue: jobQueue, MinPeers: m.cfg.MinPeers, MinPeersWait: m.cfg.MinPeersWait,
		MinWait: minLatest, MaxWait: maxLatest, NewShare: m.tuning.choice.NewShare, Until: m.cfg.Until, Beside: errandSlot, Party: m.learner.partyNumber,
		Coming: m.tenancy.isComing, Heard: func() time.Time { return m.learner.heard },
		Members: func() int { return len(m.cfg.Swarm.View().Peers) },
	}, dues{m.sched}, book{m.table, m.keep, m.pace, m.errands}, m.near)
	if err := errors.Join(m.recallSizes(ctx), m.recallShown(ctx), m.recallMembers(ctx)); err != nil {
		return err
	}
	if err := m.placers.restoreAudits(ctx, now); err != nil {
		return err
	}
	if m.tenancy != nil { // it takes its partitions when it runs
		m.errands.first += channel.ID(m.epoch) * errandPlaces
		return m.auditor.restore(ctx, now)
	}
	if err := st.ScanHosts(ctx, func(h channel.Host) error {
		if h.Blocked != "" || h.NextVisit.After(now) {
			m.machine.Block(channel.KeyOf(h.Name), h.Blocked)
			m.leaveStill(now, &h)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("read hosts: %w", err)
	}
	if err := st.Scan(ctx, 0, 0, func(r channel.Hot) error { return m.roster.add(now, r) }); err != nil {
		return fmt.Errorf("read channels: %w", err)
	}
	if err := m.readWhole(ctx); err != nil {
		return err
	}
	return m.auditor.restore(ctx, now)
}

// leaveStill has a host left alone as its record says, but for no longer than it was to be when that was said: the clock may have been ahead then.
func (c *core) leaveStill(now time.Time, h *channel.Host) {
	next := h.NextVisit
	if latest := now.Add(h.Rest); h.Rest > 0 && next.After(latest) {
		next = latest
	}
	dispatch.LeaveNoted(c.machine, channel.KeyOf(h.Name), c.soonest(now, next))
}

// soonest is when a host may be visited, where that is believable; else when the longest lease of a task that is out has ended.
func (c *core) soonest(now, next time.Time) time.Time {
	if next.After(now.Add(dispatch.MostRest)) {
		return now.Add(c.cfg.Terms.Term)
	}
	return next
}

// scheduler goes on with what groups and strategy had learnt, if it was this strategy that had learnt it.
func (m *Manager) scheduler(ctx context.Context, now time.Time, strategy recrawl.Strategy) (*recrawl.Scheduler, error) {
	m.cfg.Options.Pending = func(s recrawl.Slot) int {
		if !m.table.Used(s) { // it is being added
			return m.roster.adding
		}
		return m.table.Links(s)
	}
	b, err := m.cfg.Store.State(ctx, stateStrategy)
	if err != nil {
		return nil, fmt.Errorf("read the strategy's state: %w", err)
	}
	if b == nil { // a further manager, or one after several, goes on with what another one's strategy has learnt
		all, err := m.cfg.Store.Kept(ctx, stateStrategy)
		if err != nil {
			return nil, fmt.Errorf("read what other managers' strategies have learnt: %w", err)
		}
		if len(all) > 0 {
			b = all[0]
		}
	}
	if b == nil {
		return recrawl.NewScheduler(m.clock.At(now), strategy, m.cfg.Options), nil
	}
	if recrawl.StateOf(b) != strategy.Name() { // --strategy names another one than was in force
		if strategy, err = m.tuning.recovered(ctx, m.tuning.choice, strategy, b); err != nil {
			return nil, err
		}
	}
	s, err := recrawl.RestoreScheduler(m.clock.At(now), strategy, m.cfg.Options, b)
	if err != nil {
		m.log.Warn("the strategy begins anew", "strategy", strategy.Name(), "err", err)
		return recrawl.NewScheduler(m.clock.At(now), strategy, m.cfg.Options), nil
	}
	return s, nil
}
