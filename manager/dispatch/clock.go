package dispatch

import "time"

// Postpone has each host that was left alone at a time left alone for longer: the clock went forward since, and time did not pass. What is out is not awaited for longer, as
// the archive refuses a claim by that clock.
func Postpone(m *Machine, at time.Time, by time.Duration) {
	for key, h := range m.hosts {
		if h.next.After(at) {
			h.next = h.next.Add(by)
			m.hosts[key] = h
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
