package dispatch

import "time"

// Usage is what became of the time of the peers' threads, summed since the Machine was made.
type Usage struct {
	Offered time.Duration
	Idle    time.Duration // of it without a task of ours
	// Missed is the idle time while a channel was missing or probably stale and might have been crawled, but for peers near its host: their
	// threads had work; or for a strategy that keeps its channels. Channels that nobody may crawl at the moment (see Holdup) are not among them.
	Missed time.Duration
}

// usage adds it up, from one look to the next.
type usage struct {
	Usage
	at            time.Time
	threads, idle int
	lacking       bool
}

// longestLook bounds the time between two looks that counts: what happened in a longer one is not known.
const longestLook = 10 * time.Second

// pass counts the time since the last look.
func (u *usage) pass(now time.Time) {
	if d := now.Sub(u.at); d > 0 && !u.at.IsZero() {
		d = min(d, longestLook)
		u.Offered += d * time.Duration(u.threads)
		u.Idle += d * time.Duration(u.idle)
		if u.lacking {
			u.Missed += d * time.Duration(u.idle)
		}
	}
	u.at = now
}

// look takes in how the threads are.
func (m *Machine) look(now time.Time) {
	c, due := m.judge.Capacity(now), m.sparer()
	m.usage.threads, m.usage.idle, m.usage.lacking = c.Threads, c.Idle, due != nil && c.Idle > 0 && due.Lacking(may(m, now))
}

// Usage is what became of the time of the peers' threads.
func (m *Machine) Usage() Usage { return m.usage.Usage }
