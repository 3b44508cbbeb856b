package manager

import (
	"context"
	"time"
)

const (
	ackTicks = 20
	ackEvery = time.Minute // at most
)

// keepAcked tells the archive now and then up to where its feed was taken in, by all managers, as the cursors say that lie in the database: it may forget
// what is before, by the rule that it was given.
func (c *core) keepAcked(ctx context.Context) {
	t := time.NewTicker(min(ackTicks*c.cfg.Tick, ackEvery))
	defer t.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		cursor, err := c.takenIn(ctx)
		if err == nil && cursor != "" && cursor != last {
			if err = c.cfg.Archive.Ack(ctx, cursor); err == nil {
				last = cursor
			}
		}
		if err != nil && ctx.Err() == nil {
			c.log.Warn("the archive was not told what it may forget; will try again", "err", err)
		}
	}
}

// takenIn is up to where all have taken the feed in; empty: that is not known.
func (c *core) takenIn(ctx context.Context) (string, error) {
	if c.tenancy == nil {
		return c.cfg.Store.Cursor(ctx, FeedName)
	}
	all, err := c.tenancy.Shared.Cursors(ctx)
	if err != nil || len(all) == 0 {
		return "", err
	}
	return c.tenancy.Earliest(all...)
}
