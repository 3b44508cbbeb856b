package peer

import (
	"context"
	"time"
)

// Tuning is what can change of a Config while the agent runs. It counts for crawls that begin afterwards; Grace counts at once.
type Tuning struct {
	MinGap, Checkpoint, Grace time.Duration
	Disk                      int64
}

// Tune changes the tuning.
func (a *Agent) Tune(t Tuning) { a.tuned.Store(&t) }

// ClockOffset returns how far the network's clock is ahead of this computer's, as signed answers have told.
func (a *Agent) ClockOffset() time.Duration { return time.Until(a.now()).Round(time.Millisecond) }

// GiveRefused gives back what Config.Refuse has come to refuse: waiting tasks go back to the manager, and running ones end at their next
// checkpoint, send what they have and are released. It does not look for other peers first, since the manager knows where else to ask. A task that
// the archive does not take back is forgotten, and the manager hands it out again when its claim does not come.
func (a *Agent) GiveRefused(ctx context.Context) {
	waiting, running := a.tasks.takeRefused()
	for _, key := range running {
		a.stop(key)
	}
	back := 0
	for _, t := range waiting {
		err := a.giveBack(ctx, t)
		if err != nil {
			a.log.Debug("task not given back", "host", t.Header.Host, "err", err)
		} else {
			back++
		}
		a.tasks.given(keyOf(t.Header))
	}
	if len(waiting)+len(running) > 0 {
		a.stats.add(func(c *Counters) { c.GivenBack += back })
		a.log.Info("tasks of sites that are refused now are given back", "waiting", len(waiting), "taken back", back, "running", len(running))
	}
}
