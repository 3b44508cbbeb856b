package manager

import (
	"context"
	"time"

	"shoal/channel"
)

// Links is how many pages of a channel are known beside its copy.
func (m *Manager) Links(ctx context.Context, id channel.ID) (n int, err error) {
	err = m.onLoop(ctx, func(time.Time) {
		if s, ok := m.table.Find(id); ok {
			n = m.table.Links(s)
		}
	})
	return n, err
}

// PauseAfter is the wait after n failed crawls in a row.
func PauseAfter(f Failing, n int) time.Duration { return f.pause(n) }
