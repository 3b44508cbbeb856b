package manager

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"shoal/channel"
)

// An order for a channel whose manager has gone is told to all others, of which none may have the channel yet. What the database does not keep of it, each keeps
// for a while, for the case that it takes the channel.

// lateOrder is one that was told, by this manager or by another.
type lateOrder struct {
	channel.Note
	at time.Time
}

const (
	lateFor  = 30 * time.Second // partitions of a manager that has died are taken well within
	lateMost = 1 << 14          // orders that are kept
)

// delay keeps an order that the database does not.
func (t *tenancy) delay(n channel.Note) {
	switch n.What {
	case noteCrawl, noteStandOff:
	case noteEdited:
		if n = editedOnly(n); n.Body == nil {
			return
		}
	default:
		return
	}
	now := t.cfg.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.late = slices.DeleteFunc(t.late, func(o lateOrder) bool { return now.Sub(o.at) > lateFor })
	if len(t.late) < lateMost {
		t.late = append(t.late, lateOrder{n, now})
	}
}

// editedOnly is the note of an edit with no more than which channel it is of: the rest is in the database.
func editedOnly(n channel.Note) channel.Note {
	var of noted
	if json.Unmarshal(n.Body, &of) != nil {
		return channel.Note{}
	}
	ch, err := channel.ParseChannel(of.Before)
	if err != nil {
		return channel.Note{}
	}
	b, err := json.Marshal(noted{ID: ch.ID})
	if err != nil {
		return channel.Note{}
	}
	return channel.Note{What: n.What, Body: b}
}

// reweigh takes in what an operator says of a channel's importance, as the database has it: what its manager had learnt of it does not, if that ended before.
func (ro *roster) reweigh(ctx context.Context, id channel.ID) error {
	ch, err := ro.cfg.Store.Channel(ctx, id)
	if err != nil {
		return err
	}
	return ro.onLoop(ctx, func(time.Time) {
		if s, is := ro.table.Find(id); is {
			ro.tune.weigh(s, Importance(&ch.Settings), ch.Learnt.Pages)
		}
	})
}

// catchUp does what was ordered of late for channels of partitions that were just taken. What their manager has done before it gave them is done again, which
// does no harm.
func (t *tenancy) catchUp(ctx context.Context, parts []uint8) {
	t.mu.Lock()
	late := slices.Clone(t.late)
	t.mu.Unlock()
	for _, o := range late {
		var of noted
		if t.cfg.Now().Sub(o.at) > lateFor || json.Unmarshal(o.Body, &of) != nil {
			continue
		}
		taken := false
		if err := t.onLoop(ctx, func(time.Time) {
			s, is := t.table.Find(of.ID)
			taken = is && slices.Contains(parts, t.table.Host(s).Part())
		}); err != nil || !taken {
			continue
		}
		do := func() error { return t.hear(ctx, o.Note) }
		if o.What == noteEdited {
			do = func() error { return t.roster.reweigh(ctx, of.ID) }
		}
		if err := do(); err != nil && ctx.Err() == nil {
			t.log.Info("what was ordered before a channel was taken is not done", "what", o.What, "channel", of.ID, "err", err)
		}
	}
}
