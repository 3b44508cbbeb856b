package dispatch

import "time"

// Shift has hosts and channels left alone for as long as they want to be, though the clock was set at a time that it showed: forward by so much, or back if that is negative. What was
// noted by a clock of which nothing is known never ends earlier by it. What is out is awaited for no longer when the clock goes forward, as the archive refuses a claim by that clock;
// when it is set back see Advance.
func Shift(m *Machine, at time.Time, by time.Duration) {
	for key, h := range m.hosts {
		if h.next.After(at) && (by > 0 || !h.noted) {
			h.next = h.next.Add(by)
			m.hosts[key] = h
		}
	}
	for s, until := range m.notBefore {
		if until.After(at) {
			m.notBefore[s] = until.Add(by)
		}
	}
}

// Advance has waits end as much earlier as the clock was set back by which they were reckoned: of the claims of tasks that were issued from a time on, and of pauses.
func Advance(m *Machine, since time.Time, by time.Duration) {
	for _, p := range m.flights.places {
		if p.at == 0 {
			continue
		}
		f := m.flights.at(p.at - 1)
		if f.issue.Out() && f.issued.Before(since) || !f.issue.Advance(by) && !f.waiting {
			continue
		}
		if f.waiting && f.due > 0 {
			f.due = max(1, f.due-int64(by))
		}
		m.persist(f)
		m.arm(f)
	}
}
