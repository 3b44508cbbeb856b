package manager

import (
	"cmp"
	"context"
	"slices"
	"time"

	"shoal/channel"
	"shoal/recrawl"
)

// Inspection is what the loop holds of one channel, beside its record in the database.
type Inspection struct {
	Known   bool          // false: the loop does not have it, and nothing below is set
	Group   int           // 0 is the fastest
	Every   time.Duration // learnt mean time between changes; 0: never crawled
	Due     time.Time     // zero: now, or never
	Out     bool
	State   channel.State // with what is not written yet
	Reason  string
	Blocked string // why its host is
	Limit   int    // crawls that may fail in a row; 0: no limit
}

// Inspect looks at channels that were read from the database.
func (m *Manager) Inspect(ctx context.Context, chs []channel.Channel) ([]Inspection, error) {
	out := make([]Inspection, len(chs))
	err := m.onLoop(ctx, func(now time.Time) {
		intervals := m.sched.Intervals()
		for i := range chs {
			if s, ok := m.table.Find(chs[i].ID); ok {
				out[i] = m.inspect(now, s, &chs[i], intervals)
			}
		}
	})
	return out, err
}

func (m *Manager) inspect(now time.Time, s recrawl.Slot, ch *channel.Channel, intervals []recrawl.Tick) Inspection {
	f := m.sched.Facts(s)
	in := Inspection{Known: true, State: ch.State, Reason: ch.Reason, Limit: m.cfg.Failing.Limit, Group: int(f.Group), Out: m.machine.IsOut(s),
		Blocked: m.machine.Blocked(m.table.Host(s))}
	if f.Updated > 0 {
		in.Every = time.Duration(f.Est.Interval() * float64(m.cfg.Tick))
	}
	if f.Submitted > 0 && in.Group < len(intervals) {
		in.Due = m.clock.Time(f.Submitted + intervals[in.Group])
	}
	if at := m.machine.Until(s); at.After(in.Due) {
		in.Due = at
	}
	if in.Due.Before(now) {
		in.Due = time.Time{}
	}
	if st, ok := m.states[s]; ok {
		in.State, in.Reason = st.state, st.reason
	}
	return in
}

// Explain says how a channel changes, as the strategy has understood it, or as its own history says.
func (m *Manager) Explain(ctx context.Context, ch *channel.Channel) (string, error) {
	var f recrawl.Facts
	var day float64
	model, known := "", false
	err := m.onLoop(ctx, func(time.Time) {
		var s recrawl.Slot
		if s, known = m.table.Find(ch.ID); known {
			f, day = m.sched.Facts(s), m.modelDay()
			model = m.sched.Strategy().Explain(s, &f)
		}
	})
	if err == nil && known && model == "" { // the strategy in force does not ask
		model = recrawl.DescribeModel(ch.Learnt.History, &f, day)
	}
	return model, err
}

// Events are what happened to a channel of late, the latest first.
func (m *Manager) Events(ctx context.Context, id channel.ID) ([]Event, error) {
	var out []Event
	err := m.onLoop(ctx, func(time.Time) { out = m.events.of(id) })
	slices.Reverse(out)
	return out, err
}

// IDs are n of the channels that the loop holds, from the from-th on, and how many there are.
func (m *Manager) IDs(ctx context.Context, from, n int) (ids []channel.ID, total int, err error) {
	err = m.onLoop(ctx, func(time.Time) {
		total = m.sched.Len()
		for s, seen := recrawl.Slot(0), 0; int(s) < m.table.Len() && len(ids) < n; s++ {
			if !m.table.Used(s) {
				continue
			}
			if seen++; seen > from {
				ids = append(ids, m.table.ID(s))
			}
		}
	})
	return ids, total, err
}

// modelDay is the time after which a channel's changes may repeat themselves, in ticks, as strategy optimal takes it. Called on the loop.
func (m *Manager) modelDay() float64 {
	return cmp.Or(m.choice.Params.PlanEvery, m.cfg.PlanEvery, recrawl.PlanDay)
}
