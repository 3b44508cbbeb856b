package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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

// counts are those of the network's life.
func (c *core) counts() dispatch.Counts {
	n, b := c.machine.Counts(), c.tally.earlier
	return dispatch.Counts{Submitted: n.Submitted + b.Submitted, Accepted: n.Accepted + b.Accepted, Refused: n.Refused + b.Refused, Lapsed: n.Lapsed + b.Lapsed,
		Now: n.Now + b.Now, New: n.New + b.New, Old: n.Old + b.Old}
}

// audits are those that peers accepted in the network's life. They are not among the counts.
func (c *core) audits() int64 { return c.tally.audits + c.machine.Beside().Accepted }

// recallShown reads what a manager before this one has kept. What cannot be read is begun anew: it is for people alone.
func (c *core) recallShown(ctx context.Context) error {
	b, err := c.cfg.Store.State(ctx, stateShown)
	if err != nil {
		return fmt.Errorf("read counters and plots: %w", err)
	}
	var r remembered
	if err := json.Unmarshal(b, &r); b != nil && err != nil {
		c.log.Warn("counters and plots begin anew", "err", err)
	} else if b != nil {
		c.tally.since, c.tally.earlier, c.tally.audits = r.Since, r.Counts, r.Audits
		c.tally.updates, c.tally.pages, c.tally.unchanged, c.tally.bytesDown = r.Updates, r.Pages, r.Unchanged, r.BytesDown
		maps.Copy(c.tally.errors, r.Errors)
		c.history.points = r.History
	}
	if b, err = c.cfg.Store.State(ctx, stateEvents); err != nil {
		return fmt.Errorf("read what happened to channels: %w", err)
	}
	if b != nil {
		if err := c.events.restore(b); err != nil {
			c.log.Warn("what happened to channels is forgotten", "err", err)
		}
	}
	return nil
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

// KeptEvents are what happened to a channel of late, the latest first, as a manager that has stopped left it in the database.
func KeptEvents(ctx context.Context, store interface {
	State(ctx context.Context, name string) ([]byte, error)
}, id channel.ID) ([]Event, error) {
	b, err := store.State(ctx, stateEvents)
	if err != nil {
		return nil, fmt.Errorf("read what happened to channels: %w", err)
	}
	kept := newEvents()
	if b == nil || kept.restore(b) != nil { // the manager tells when it starts
		return nil, nil
	}
	out := kept.of(id)
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
