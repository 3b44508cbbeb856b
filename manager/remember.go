package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
)

// stateShown and stateEvents name what the database keeps of what people are shown: counters and plots; and what happened to channels of late.
// A crash undoes half a minute of the first, and ten minutes of the second.
const (
	stateShown  = "manager/shown"
	stateEvents = "manager/events"
	eventsEvery = 10 * time.Minute
)

// remembered are the counters and plots of a network's life.
type remembered struct {
	Since     time.Time        `json:"since"` // the first start
	Counts    dispatch.Counts  `json:"counts"`
	Audits    int64            `json:"audits"`
	Updates   int64            `json:"updates"`
	Pages     int64            `json:"pages"`
	Unchanged int64            `json:"unchanged"`
	BytesDown int64            `json:"bytes_down"`
	Errors    map[string]int64 `json:"errors"`
	History   []Point          `json:"history"`
}

// SummedState reports whether a manager that has the database for itself keeps of a state the sum of what all managers have kept that had shared it.
func SummedState(name string) bool {
	return name == stateShown || name == stateSizes || name == stateConduct
}

// CountedBy is what managers have counted that share a database, or shared it, by their peer ids, as they wrote it down last: the counters, errors by kind, and members
// to look at, if any.
func CountedBy(ctx context.Context, store interface {
	KeptBy(ctx context.Context, name string) (map[string][]byte, error)
}) (map[string]Overview, error) {
	all, err := store.KeptBy(ctx, stateShown)
	if err != nil {
		return nil, fmt.Errorf("read what other managers have counted: %w", err)
	}
	out := map[string]Overview{}
	for node, b := range all {
		var r remembered
		if json.Unmarshal(b, &r) != nil { // its own manager tells
			continue
		}
		n := r.Counts
		out[node] = Overview{Errors: hyphened(r.Errors), Submitted: n.Submitted, Accepted: n.Accepted, Refused: n.Refused, Lapsed: n.Lapsed, Audits: r.Audits, Updates: r.Updates, Pages: r.Pages, Unchanged: r.Unchanged, BytesDown: r.BytesDown}
	}
	if all, err = store.KeptBy(ctx, stateConduct); err != nil {
		return nil, fmt.Errorf("read what members did at other managers: %w", err)
	}
	for node, b := range all {
		m := newMembers(0) // what is out does not count
		if m.restore(b) != nil {
			continue
		}
		o := out[node]
		o.Suspects, o.AllSuspects = m.suspects(time.Now())
		out[node] = o
	}
	return out, nil
}

// counts are those of the network's life.
func (c *core) counts() dispatch.Counts {
	return plus(c.machine.Counts(), c.tally.earlier)
}

func plus(n, b dispatch.Counts) dispatch.Counts {
	return dispatch.Counts{Submitted: n.Submitted + b.Submitted, Accepted: n.Accepted + b.Accepted, Refused: n.Refused + b.Refused, Lapsed: n.Lapsed + b.Lapsed,
		Now: n.Now + b.Now, New: n.New + b.New, Old: n.Old + b.Old}
}

// audits are those that peers accepted in the network's life. They are not among the counts.
func (c *core) audits() int64 { return c.tally.audits + c.machine.Beside().Accepted }

// recallShown reads what a manager before this one has kept. What cannot be read is begun anew: it is for people alone.
func (c *core) recallShown(ctx context.Context) error {
	all, err := c.kept(ctx, stateShown)
	if err != nil {
		return fmt.Errorf("read counters and plots: %w", err)
	}
	for i, b := range all {
		var r remembered
		if err := json.Unmarshal(b, &r); err != nil {
			c.log.Warn("counters and plots begin anew", "err", err)
			continue
		}
		if i == 0 { // of several managers the plots have other times
			c.tally.since, c.history.points = r.Since, r.History
		}
		c.tally.recall(&r)
	}
	if all, err = c.kept(ctx, stateEvents); err != nil {
		return fmt.Errorf("read what happened to channels: %w", err)
	}
	for _, b := range slices.Backward(all) {
		if err := c.events.restore(b); err != nil {
			c.log.Warn("what happened to channels is forgotten", "err", err)
		}
	}
	return nil
}

// kept are what the managers before this one have kept of a state. Of one that each of several has for itself, that is this one's; one that has the database for
// itself and kept none goes on with those of all that had shared it.
func (c *core) kept(ctx context.Context, name string) ([][]byte, error) {
	b, err := c.cfg.Store.State(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case b != nil:
		return [][]byte{b}, nil
	case c.tenancy != nil:
		return nil, nil
	}
	return c.cfg.Store.Kept(ctx, name)
}

// recall adds what was counted before.
func (t *tally) recall(r *remembered) {
	if r.Since.Before(t.since) {
		t.since = r.Since
	}
	t.earlier = plus(t.earlier, r.Counts)
	t.audits += r.Audits
	t.updates, t.pages, t.unchanged, t.bytesDown = t.updates+r.Updates, t.pages+r.Pages, t.unchanged+r.Unchanged, t.bytesDown+r.BytesDown
	for kind, n := range hyphened(r.Errors) {
		t.errors[kind] += n
	}
}

// keepShown writes it, with the strategy's state.
func (c *core) keepShown(ctx context.Context, now time.Time, final bool) error {
	b, err := json.Marshal(remembered{c.tally.since, c.counts(), c.audits(), c.tally.updates, c.tally.pages, c.tally.unchanged, c.tally.bytesDown, c.tally.errors, c.history.points})
	if err != nil {
		return err
	}
	if err := c.cfg.Store.PutState(ctx, c.epoch, stateShown, b); err != nil {
		return err
	}
	if err := c.keepMembers(ctx, now); err != nil {
		return err
	}
	if !final && now.Sub(c.history.kept) < eventsEvery {
		return nil
	}
	c.history.kept = now
	if b, err = c.events.state(); err != nil {
		return err
	}
	return c.cfg.Store.PutState(ctx, c.epoch, stateEvents, b)
}

// KeptEvents are what happened to a channel of late, the latest first, as managers that have stopped left it in the database.
func KeptEvents(ctx context.Context, store interface {
	Kept(ctx context.Context, name string) ([][]byte, error)
}, id channel.ID) ([]Event, error) {
	all, err := store.Kept(ctx, stateEvents)
	if err != nil {
		return nil, fmt.Errorf("read what happened to channels: %w", err)
	}
	var out []Event
	for _, b := range all {
		kept := newEvents()
		if kept.restore(b) != nil { // the manager tells when it starts
			continue
		}
		out = append(out, kept.of(id)...)
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.At.Compare(b.At) })
	out = slices.Compact(out) // who took a channel over knew what was before
	slices.Reverse(out)
	return out, nil
}

const eventsStored = 24 // of one channel

// toldState is a channel's events as the database has them.
type toldState struct {
	ID   channel.ID `json:"id"`
	What []Event    `json:"what"`
}

// state are the events of all channels, that of the channel touched last first.
func (e *events) state() ([]byte, error) {
	all := make([]toldState, 0, e.lru.Len())
	for at := e.lru.Front(); at != nil; at = at.Next() {
		t := at.Value.(*told)
		all = append(all, toldState{t.id, t.what[max(len(t.what)-eventsStored, 0):]})
	}
	return json.Marshal(all)
}

func (e *events) restore(b []byte) error {
	var all []toldState
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- {
		for _, ev := range all[i].What {
			e.add(all[i].ID, ev)
		}
	}
	return nil
}

// recallEvents takes in what other managers kept of what happened to channels that this one has now. It is for people alone: what cannot be read is left out.
func (t *tenancy) recallEvents(ctx context.Context) {
	all, err := t.Shared.Others(ctx, stateEvents)
	if err != nil {
		t.log.Warn("what happened to channels while others had them is not told", "err", err)
		return
	}
	for _, b := range all {
		var of []toldState
		if err := json.Unmarshal(b, &of); err != nil {
			t.log.Warn("what happened to channels while another manager had them is not told", "err", err)
			continue
		}
		_ = t.onLoop(ctx, func(time.Time) {
			for i := range of {
				if _, here := t.table.Find(of[i].ID); here {
					t.events.adopt(&of[i])
				}
			}
		})
	}
}

// adopt takes in what happened to a channel while another manager had it, if that is later than what is known here, and if there is room.
func (e *events) adopt(o *toldState) {
	if len(o.What) == 0 {
		return
	}
	last := o.What[len(o.What)-1].At
	if at, known := e.by[o.ID]; known {
		t := at.Value.(*told)
		if len(t.what) > 0 && !last.After(t.what[len(t.what)-1].At) {
			return
		}
		t.what = o.What
		return
	}
	if e.lru.Len() < eventsInAll {
		e.by[o.ID] = e.lru.PushBack(&told{o.ID, o.What})
	}
}
