package manager

import (
	"context"
	"time"
)

const (
	ackTicks = 20
	ackEvery = time.Minute // at most
)

// keepAcked tells the archive now and then up to where its feed was taken in, by the cursor that lies in the database: it may forget what is
// before, by the rule that it was given.
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
		cursor, err := c.cfg.Store.Cursor(ctx, FeedName)
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
