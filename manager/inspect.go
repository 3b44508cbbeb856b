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
	Group   int           // 0 is the fastest
	Every   time.Duration // learnt mean time between changes; 0: never crawled
	Updated time.Time
	Due     time.Time // zero: now, or never
	Out     bool
	State   channel.State // with what is not written yet
	Reason  string
	Paused  bool
	Blocked string // why its host is
	Model   string // how it changes, as the strategy or its history says
	Limit   int    // crawls that may fail in a row; 0: no limit
	Events  []Event
}

// Inspect looks at a channel that was read from the database. It returns false if the loop does not have it.
func (m *Manager) Inspect(ctx context.Context, ch *channel.Channel) (Inspection, bool, error) {
	in := Inspection{State: ch.State, Reason: ch.Reason, Limit: m.cfg.Failing.Limit}
	var f recrawl.Facts
	var day float64
	ok := false
	err := m.onLoop(ctx, func(now time.Time) {
		var s recrawl.Slot
		if s, ok = m.table.Find(ch.ID); !ok {
			return
		}
		f, day = m.sched.Facts(s), m.modelDay()
		in.Group, in.Updated, in.Out = int(f.Group), m.clock.Time(f.Updated), m.machine.IsOut(s)
		in.Paused, in.Blocked = f.Flags&recrawl.Paused != 0, m.machine.Blocked(m.table.Host(s))
		if f.Updated > 0 {
			in.Every = time.Duration(f.Est.Interval() * float64(m.cfg.Tick))
		}
		if iv := m.sched.Intervals(); f.Submitted > 0 && in.Group < len(iv) {
			in.Due = m.clock.Time(f.Submitted + iv[in.Group])
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
		in.Model = m.sched.Strategy().Explain(s, &f)
		in.Events = m.events.of(ch.ID)
	})
	if err != nil || !ok {
		return in, false, err
	}
	slices.Reverse(in.Events)
	if in.Model == "" { // the strategy in force does not ask
		in.Model = recrawl.DescribeModel(ch.Learnt.History, &f, day)
	}
	return in, true, nil
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
