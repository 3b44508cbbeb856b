package dispatch

import (
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/recrawl"
)

// Restore takes in a channel that was not idle when the manager stopped.
func (m *Machine) Restore(now time.Time, s recrawl.Slot, issue lease.Issue) {
	switch {
	case issue.Out():
		f := m.takeOff(now, s, issue)
		m.occupy(f)
		m.arm(f)
	case issue.Phase == lease.Pausing:
		f := m.takeOff(now, s, issue)
		retry(m, now, f, issue.Deadline())
	}
}

// Rest has a channel that is paused not handed out again: what waits for that does so no more, and what is out runs to its end. Due has the channel as
// paused. CrawlNow before is overruled.
func Rest(m *Machine, s recrawl.Slot) {
	delete(m.asked, s)
	if f := m.flights.find(s); f != nil {
		if f.asked = false; f.waiting {
			withdraw(m, f)
		}
	}
}

// Asked reports whether a channel is handed out, or waits for that, because CrawlNow was called.
func Asked(m *Machine, s recrawl.Slot) bool {
	f := m.flights.find(s)
	return f != nil && f.asked
}

// Anew has a channel handed out before everything else whose task a peer has, or may have, and has not begun, once the archive says that it is taken back. It returns
// the generation that the archive is to take back; zero: there is none, as no task is out, a peer crawls it, or is being asked for it.
func Anew(m *Machine, s recrawl.Slot) channel.Gen {
	f := m.flights.find(s)
	if f == nil || f.issue.Phase != lease.Awaited {
		return 0
	}
	f.asked, f.anew = true, true
	return f.issue.Gen
}

// Unbegun are the generations of the tasks that some peers took and have not begun.
func Unbegun(m *Machine, of func(Peer) bool) map[recrawl.Slot]channel.Gen {
	out := map[recrawl.Slot]channel.Gen{}
	for f := range m.flights.all() {
		if f.took && f.issue.Phase == lease.Awaited && of(f.peer) {
			out[f.slot] = f.issue.Gen
		}
	}
	return out
}

// CrawlNow has an idle channel handed out before everything else, whatever Due says. It fails with lease.ErrOut if a task of it is out.
func (m *Machine) CrawlNow(now time.Time, s recrawl.Slot) error {
	f := m.flights.find(s)
	switch {
	case f != nil && f.issue.Out():
		return lease.ErrOut
	case f == nil:
		issue, err := m.channels.Issue(s)
		if err != nil {
			return err
		}
		marked := issue.Unmark() != 0
		f = m.takeOff(now, s, issue)
		if marked {
			m.persist(f)
		}
		m.due.Edit(s, func(f *recrawl.Facts) { f.Out, f.Submitted = 1, m.cfg.Clock.At(now) })
	}
	delete(m.notBefore, s)
	f.asked = true
	m.again(now, f, now)
	return nil
}

// Reserve takes a generation of a channel for a task that is none of the channel's own, above a given one. It fails with lease.ErrOut if a task of it is out.
func (m *Machine) Reserve(s recrawl.Slot, above channel.Gen) (gen channel.Gen, err error) {
	if f := m.flights.find(s); f != nil {
		if gen, err = f.issue.Skip(above); err == nil {
			m.persist(f)
		}
		return gen, err
	}
	issue, err := m.channels.Issue(s)
	if err != nil {
		return 0, err
	}
	if gen, err = issue.Skip(above); err == nil {
		m.acts = append(m.acts, Act{Kind: Persist, Slot: s, Issue: issue})
	}
	return gen, err
}

// Unmark gives a channel that was given up another chance.
func (m *Machine) Unmark(s recrawl.Slot) error {
	if m.flights.find(s) != nil {
		return nil // which no channel has that is given up
	}
	issue, err := m.channels.Issue(s)
	if err == nil && issue.Unmark()&lease.Persist != 0 {
		m.acts = append(m.acts, Act{Kind: Persist, Slot: s, Issue: issue})
	}
	return err
}

// Forget takes a channel out of all that the Machine holds. Its host is free; see StandOff.
func (m *Machine) Forget(s recrawl.Slot) {
	if f := m.flights.find(s); f != nil {
		m.land(f)
	}
	delete(m.asked, s)
	delete(m.notBefore, s)
}

// Issue is the issue of a channel that has a flight.
func (m *Machine) Issue(s recrawl.Slot) (issue lease.Issue, ok bool) {
	f := m.flights.find(s)
	if f == nil {
		return lease.Issue{}, false
	}
	return f.issue, true
}

// IsOut reports whether a task of a channel may be with a peer.
func (m *Machine) IsOut(s recrawl.Slot) bool {
	f := m.flights.find(s)
	return f != nil && f.issue.Out()
}

// Gen is the generation of a channel that has a flight; else 0.
func (m *Machine) Gen(s recrawl.Slot) channel.Gen {
	if f := m.flights.find(s); f != nil {
		return f.issue.Gen
	}
	return 0
}

// Ahead reads what is kept of a channel that has a flight, and changes nothing. An owner that will Hear of many channels calls it for all of
// them first: a processor waits as long for many lines of memory as for one.
func (m *Machine) Ahead(s recrawl.Slot) {
	if f := m.flights.find(s); f != nil {
		m.touched += f.serial + uint64(f.wake)
	}
}

// Leased is how many channels' leases run.
func (m *Machine) Leased() (n int) {
	for f := range m.flights.all() {
		if f.issue.Phase == lease.Leased {
			n++
		}
	}
	return n
}
