package peer

import (
	"context"
	"time"
)

// moment is a reading of all clocks of a computer.
type moment struct {
	at   time.Time     // with the monotonic reading, which may stand still while the computer sleeps
	boot time.Duration // since the system's start, sleep included; 0 where the system does not tell
}

// present reads the clocks.
func present() moment { return moment{time.Now(), sinceBoot()} }

// sinceBoot is the time since the system's start as one that a Holder takes.
func (m moment) sinceBoot() time.Time { return time.Unix(0, 0).Add(m.boot) }

// passed is how much time lies between two readings, by the clock that says the most.
func passed(from, to moment) time.Duration {
	return max(to.at.Sub(from.at), to.at.Round(0).Sub(from.at.Round(0)), to.boot-from.boot)
}

// How a sleep is noticed.
const (
	wakeCheck = 5 * time.Second
	wakeAfter = time.Minute // what passes beyond wakeCheck; less is a busy computer
)

// waking calls woke after each time in which the computer slept, or the process was stopped, until ctx ends.
func waking(ctx context.Context, clock func() moment, woke func(slept time.Duration)) {
	tick := time.NewTicker(wakeCheck)
	defer tick.Stop()
	for last := clock(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := clock()
		if d := passed(last, now) - wakeCheck; d >= wakeAfter {
			woke(d)
		}
		last = now
	}
}

// woke remakes what a sleep has broken: connections whose other ends have long given up, and a membership that may have run out. Leases
// need nothing: they are judged by the time that has passed.
func (a *Agent) woke(slept time.Duration) {
	a.log.Info("the computer slept; connections are made anew", "for", slept.Round(time.Second))
	a.wire.Woken()
	a.tasks.poke()
}
