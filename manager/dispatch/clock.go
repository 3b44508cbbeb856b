package dispatch

import "time"

// Shift has hosts and channels left alone for as long as they want to be, though the clock was set at a time that it showed: forward by so much, or back if that is negative. What is
// over stays over. What was noted by a clock of which nothing is known never ends earlier by it. What is out is awaited for no longer when the clock goes forward, as the archive refuses
// a claim by that clock; when it is set back see Advance.
func Shift(m *Machine, at time.Time, by time.Duration) {
	for key, h := range m.hosts {
		h.said = shifted(h.said, at, by)
		if by > 0 {
			h.noted = shifted(h.noted, at, by)
		}
		m.hosts[key] = h
	}
	for s, until := range m.notBefore {
		if until = shifted(until, at, by); until.IsZero() {
			delete(m.notBefore, s)
		} else {
			m.notBefore[s] = until
		}
	}
}

// shifted is until when somebody waits who waited for a time; zero: not any more.
func shifted(until, at time.Time, by time.Duration) time.Time {
	switch {
	case until.After(at):
		return until.Add(by)
	case by < 0: // else it would be to come again
		return time.Time{}
	}
	return until
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
