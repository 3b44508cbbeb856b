package manager

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Ticks are counted from the first start of a network. If the clock was ahead then, and is set right, no tick would pass before that time has come, and nothing
// would be crawled: so they are counted from now on. What is dated later counts as of now (recrawl.Facts.DatedBy).

// ErrSetBack says that the clock was set back to before the first start, while the manager ran: it must be opened anew.
var ErrSetBack = errors.New("manager: the clock was set back to before the time at which this network was first started")

const epochSlack = time.Minute // by which clocks are set back without more

// plausible is before any time that a clock can rightly tell. That of a computer without a battery tells an earlier one until it has asked others.
var plausible = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// unbegun reports whether ticks begin only later. Several managers count from one time, which none of them may change alone.
func (c *core) unbegun(now time.Time) bool {
	return c.tenancy == nil && now.Before(c.clock.Epoch.Add(-epochSlack)) && now.After(plausible)
}

// countFrom has ticks counted from now on.
func (m *Manager) countFrom(ctx context.Context, now time.Time) error {
	now = now.Round(0) // as it is read
	b, err := now.MarshalBinary()
	if err != nil {
		return err
	}
	if err := m.cfg.Store.PutState(ctx, m.epoch, stateEpoch, b); err != nil {
		return fmt.Errorf("write the scheduler's epoch: %w", err)
	}
	m.clock.Epoch = now
	return nil
}
