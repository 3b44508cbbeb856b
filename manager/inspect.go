package manager

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager/dispatch"
	"shoal/manager/trust"
	"shoal/recrawl"
)

// Inspection is what the loop holds of one channel, beside its record in the database.
type Inspection struct {
	Known   bool          // false: the loop does not have it, and nothing below is set
	Group   int           // 0 is the fastest
	Every   time.Duration // learnt mean time between changes; 0: never crawled
	Due     time.Time     // when it is handed out next if there is room, by the strategy and the limits in force; zero: now, or never
	Out     bool
	Awaited time.Time     // a peer has its task, or may have, and has not begun: the channel is handed out anew unless one begins until then; zero: a peer crawls it, or none has it
	State   channel.State // with what is not written yet
	Reason  string
	Blocked string // why its host is
	Limit   int    // crawls that may fail in a row; 0: no limit
	Doubt   trust.Doubt
}

// Inspect looks at channels that were read from the database. Where an operator's order or a strike was written since a channel was read, it reads that one's
// state again.
func (ro *roster) Inspect(ctx context.Context, chs []channel.Channel) ([]Inspection, error) {
	out := make([]Inspection, len(chs))
	var outdated []int
	err := ro.onLoop(ctx, func(now time.Time) {
		for i := range chs {
			s, ok := ro.table.Find(chs[i].ID)
			if !ok {
				continue
			}
			out[i] = ro.inspect(now, s, &chs[i])
			if ro.outdated(s, out[i].State) {
				outdated = append(outdated, i)
			}
		}
	})
	for _, i := range outdated {
		ch, failed := ro.cfg.Store.Channel(ctx, chs[i].ID)
		switch {
		case errors.Is(failed, channel.ErrUnknown): // removed meanwhile
		case failed != nil:
			return nil, failed
		default:
			out[i].State, out[i].Reason = ch.State, ch.Reason
		}
	}
	return out, err
}

func (ro *roster) inspect(now time.Time, s recrawl.Slot, ch *channel.Channel) Inspection {
	f := ro.sched.Facts(s)
	issue, _ := ro.machine.Issue(s)
	in := Inspection{Known: true, State: ch.State, Reason: ch.Reason, Limit: ro.cfg.Failing.Limit, Group: int(f.Group), Out: issue.Out(),
		Blocked: ro.machine.Blocked(ro.table.Host(s)), Doubt: ro.near.auditor.trust.Doubt(now, ch.ID)}
	if in.Out {
		in.Awaited = issue.Deadline()
	}
	if f.Updated > 0 {
		in.Every = time.Duration(f.Est.Interval() * float64(ro.cfg.Tick))
	}
	if f.Submitted > 0 {
		if due := ro.sched.Due(ro.clock.At(now), s); due < recrawl.Far {
			in.Due = ro.clock.Time(min(due, ro.clock.At(now.Add(mostInterval))))
		}
	}
	if at := dispatch.Rests(ro.machine, s); at.After(in.Due) {
		in.Due = at
	}
	if in.Due.Before(now) {
		in.Due = time.Time{}
	}
	if st, ok := ro.keep.states[s]; ok {
		in.State, in.Reason = st.state, st.reason
	}
	return in
}

// Explain says how a channel changes, as the strategy has understood it, or as its own history says.
func (ro *roster) Explain(ctx context.Context, ch *channel.Channel) (string, error) {
	var f recrawl.Facts
	var day float64
	model, known := "", false
	err := ro.onLoop(ctx, func(time.Time) {
		var s recrawl.Slot
		if s, known = ro.table.Find(ch.ID); known {
			f, day = ro.sched.Facts(s), ro.tune.modelDay()
			model = ro.sched.Strategy().Explain(s, &f, ro.span)
		}
	})
	if err == nil && known && model == "" { // the strategy in force does not ask
		model = recrawl.DescribeModel(ch.Learnt.History, &f, day, ro.span)
	}
	return model, err
}

// span says in words how long some ticks are.
func (ro *roster) span(ticks float64) string {
	return plain.Span(time.Duration(min(ticks*float64(ro.cfg.Tick), math.MaxInt64/2)))
}

// Events are what happened to a channel of late, the latest first.
func (ro *roster) Events(ctx context.Context, id channel.ID) ([]Event, error) {
	var out []Event
	err := ro.onLoop(ctx, func(time.Time) { out = ro.events.of(id) })
	slices.Reverse(out)
	return out, err
}
