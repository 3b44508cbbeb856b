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
	if n.What != noteCrawl && n.What != noteStandOff {
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
		if err := t.hear(ctx, o.Note); err != nil && ctx.Err() == nil {
			t.log.Info("what was ordered before a channel was taken is not done", "what", o.What, "channel", of.ID, "err", err)
		}
	}
}
