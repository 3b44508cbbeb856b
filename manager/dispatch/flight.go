package dispatch

import (
	"time"

	"shoal/channel/lease"
	"shoal/recrawl"
)

// flight is a channel that is not idle: its task is out, or waits before it is handed out again. It is two lines of memory.
type flight struct {
	slot     recrawl.Slot
	waiting  bool   // to be handed out again from due on; else a task is out
	queued   bool   // waiting, and among the immediate
	took     bool   // the peer said that it has the task, and has not claimed it
	occupies bool   // its host, of which no other channel goes meanwhile
	serial   uint64 // no two flights have the same
	issue    lease.Issue

	wake   int64 // when the earliest timer of the flight rings; zero: it has none
	due    int64 // waiting; nanoseconds, as wake
	issued time.Time
	peer   Peer // that has the task, as far as is known
	asked  bool // by CrawlNow: it is handed out again though the channel is paused
	anew   bool // Anew: once its task is taken back it is handed out without a pause
	_      [6]byte
}

// takeOff makes a flight of an idle channel. It is out or waits as soon as the caller says so.
func (m *Machine) takeOff(now time.Time, s recrawl.Slot, issue lease.Issue) *flight {
	m.serial++
	f := m.flights.add(s)
	f.serial, f.issue, f.issued = m.serial, issue, now
	return f
}

// land ends a flight: the channel is idle.
func (m *Machine) land(f *flight) {
	m.free(f)
	m.drop(f)
}

// drop forgets a flight.
func (m *Machine) drop(f *flight) {
	m.carry(f, "")
	if f.waiting {
		m.waiting--
	}
	m.flights.remove(f.slot)
}

// retry has a flight that came to nothing handed out again, unless its channel is paused.
func retry(m *Machine, now time.Time, f *flight, from time.Time) {
	if !f.asked && m.due.Facts(f.slot).Flags&recrawl.Paused != 0 {
		withdraw(m, f)
		return
	}
	m.again(now, f, from)
}

// withdraw ends a flight of which nothing is out. Nothing was crawled, which Due is told.
func withdraw(m *Machine, f *flight) {
	s := f.slot
	if f.issue.Withdraw() != 0 {
		m.persist(f)
	}
	m.land(f)
	m.due.Edit(s, func(f *recrawl.Facts) {
		f.Out, f.Flags = 0, f.Flags|recrawl.Denied
		if f.Updated == 0 {
			f.Submitted = 0
		}
	})
}

// again has a flight handed out again from some time on, as soon as there is room.
func (m *Machine) again(now time.Time, f *flight, from time.Time) {
	m.carry(f, "")
	if !f.waiting {
		f.waiting = true
		m.waiting++
	}
	f.due = nanos(from)
	switch {
	case f.queued:
	case from.After(now):
		m.arm(f)
	default:
		f.queued = true
		m.immediate = append(m.immediate, f.slot)
	}
}

// arm sets the timer of a flight.
func (m *Machine) arm(f *flight) {
	at := nanos(f.issue.Deadline())
	if f.waiting && !f.queued {
		at = max(at, f.due)
	}
	if at == 0 || f.wake != 0 && f.wake <= at { // it looks again then
		return
	}
	ring(m, f, at)
	if m.timers.n > 2*m.flights.n+timersSlack {
		m.timers.tidy()
	}
}

// ring has a flight's timer ring at a time, and no other one.
func ring(m *Machine, f *flight, at int64) {
	f.wake = at
	m.timers.push(timer{at, f.slot})
}

// unheard reports whether a flight's claim may stand in the part of the feed that was not heard yet, though the wait for it is over.
func unheard(m *Machine, f *flight) bool {
	return m.cfg.Heard != nil && f.issue.Out() && f.issue.Deadline().After(m.cfg.Heard())
}

const hearAgain = time.Second // until a claim wait is looked at again whose end was not heard of yet

func (m *Machine) stale(t timer) bool {
	f := m.flights.find(t.slot)
	return f == nil || f.wake != t.at
}

// nanos is a time as timers have it; zero: none.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

const timersSlack = 1024 // stale timers that are left alone

// wake handles the flights whose time has come: a claim that never came, a pause that is over.
func (m *Machine) wake(now time.Time) {
	ns := now.UnixNano()
	for t, ok := m.timers.pop(ns); ok; t, ok = m.timers.pop(ns) {
		f := m.flights.find(t.slot)
		if f == nil || f.wake != t.at {
			continue
		}
		f.wake = 0
		if unheard(m, f) {
			ring(m, f, ns+int64(hearAgain))
			continue
		}
		swallowed, peer, issued := f.took && f.issue.Phase == lease.Awaited, f.peer, f.issued
		by := uint64(0)
		if m.cfg.Party != nil {
			by = unanswered
			if swallowed {
				by = m.cfg.Party(peer)
			}
		}
		e := f.issue.TickOf(now, by, m.terms())
		if swallowed && e != 0 {
			m.acts = append(m.acts, Act{Kind: Swallowed, Slot: f.slot, Peer: peer, Since: issued})
		}
		switch {
		case e != 0 && !f.waiting:
			m.follow(now, f, e)
		case f.waiting && f.due <= ns:
			m.again(now, f, time.Unix(0, f.due))
		default:
			m.arm(f)
		}
	}
}

// unanswered is the number of all who may have taken a task and did not say so: who they are is not known, and one of them can do it many times.
const unanswered = 1

// terms are those of the network, for as many members as there are now.
func (m *Machine) terms() lease.Terms {
	t := m.cfg.Terms
	if m.cfg.Members != nil {
		t.Parties = lease.Parties(m.cfg.Members())
	}
	return t
}

// follow does what an effect of the lease asks for, apart from the report itself.
func (m *Machine) follow(now time.Time, f *flight, e lease.Effect) {
	if e&lease.Persist != 0 {
		m.persist(f)
	}
	if e&lease.GaveUp != 0 {
		m.due.Observe(m.cfg.Clock.At(now), f.slot, recrawl.Event{Kind: recrawl.Failed})
		m.acts = append(m.acts, Act{Kind: GaveUp, Slot: f.slot, Issue: f.issue, Note: f.issue.Reason()})
		m.land(f)
		return
	}
	if !f.issue.Out() {
		m.free(f)
		m.carry(f, "")
	}
	if e&lease.HandOut != 0 {
		if !f.waiting { // else only a pause is over
			m.sums(f.slot).Lapsed++
			m.acts = append(m.acts, Act{Kind: Nothing, Slot: f.slot, Issue: f.issue})
			m.due.Observe(m.cfg.Clock.At(now), f.slot, recrawl.Event{Kind: recrawl.Lapsed})
		}
		if retry(m, now, f, f.issue.Deadline()); m.flights.find(f.slot) != f {
			return
		}
	}
	m.arm(f)
}

func (m *Machine) persist(f *flight) {
	m.acts = append(m.acts, Act{Kind: Persist, Slot: f.slot, Issue: f.issue})
}

// carry notes which peer has a flight's task; empty: none any more, or none is known.
func (m *Machine) carry(f *flight, peer Peer) {
	if f.peer == peer {
		return
	}
	m.hold(f.peer, -1)
	m.hold(peer, 1)
	f.peer, f.took = peer, false
}

// hold counts a task in or out at a peer.
func (m *Machine) hold(p Peer, more int) {
	if p == "" {
		return
	}
	m.carried += more
	n := m.held[p] + more
	if m.held[p] = n; n == 0 {
		delete(m.held, p)
	}
	m.judge.Held(p, n)
}
