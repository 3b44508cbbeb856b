package dispatch

import (
	"time"

	"shoal/channel"
	"shoal/recrawl"
)

// host is what is known of a Web host with which something is up.
type host struct {
	out     int       // channels whose tasks may send requests to it, and visits of the owner: one, but for claims that came late
	said    time.Time // no task may start before
	noted   time.Time // likewise, by a record: it is not known what the clock showed when that was reckoned
	blocked string    // why; empty: it is not
}

// next is when a task may start.
func (h host) next() time.Time {
	if h.noted.After(h.said) {
		return h.noted
	}
	return h.said
}

// admit keeps politeness: one channel of a host at a time, none that is blocked, none before the host's next visit; near the end nothing that
// would outlive it; and then asks the judge for a near peer, with a free thread if the task is a spare one. If not ok, at says when to ask again; the zero time means that enough was
// looked at for now.
func (m *Machine) admit(now time.Time, s recrawl.Slot, how way) (at time.Time, peer Peer, ok bool) {
	key := m.channels.Host(s)
	if coming(m, key) {
		return now.Add(m.cfg.Clock.Step), "", false
	}
	if h, up := m.hosts[key]; up {
		switch {
		case h.blocked != "":
			return now.Add(blockedAgain), "", false
		case h.out != 0:
			return now.Add(m.cfg.Clock.Step), "", false
		case now.Before(h.next()):
			return h.next(), "", false
		}
	}
	if len(m.notBefore) > 0 {
		if until := m.notBefore[s]; now.Before(until) {
			return until, "", false
		}
	}
	if outlasts(m, now, s) {
		return m.cfg.Until.Add(time.Hour), "", false
	}
	peer, v := m.near(now, s, key, how)
	switch v {
	case Go:
		return time.Time{}, peer, true
	case Enough:
		return time.Time{}, "", false
	case Unknown:
		return now.Add(min(m.cfg.Clock.Step, measuring)), "", false
	}
	return now.Add(m.cfg.Clock.Step), "", false
}

// coming reports whether not all is known yet that is out at a host.
func coming(m *Machine, key channel.HostKey) bool { return m.cfg.Coming != nil && m.cfg.Coming(key) }

const (
	blockedAgain = time.Hour   // how often a blocked host is looked at again
	measuring    = time.Second // until a task whose host is being measured is looked at again, if it goes before everything else
)

// near asks the judge whether a task should be placed now: a peer near its host has room, or it has waited long enough. This is delay
// scheduling (Zaharia and others, "Delay Scheduling", EuroSys 2010): a task waits while all peers near its host are full, rather than go at
// once to a far one that happens to have room; that one is left to the tasks near it.
func (m *Machine) near(now time.Time, s recrawl.Slot, key channel.HostKey, how way) (Peer, Verdict) {
	if how.spare {
		peer, v := m.judge.Room(now, Ask{Slot: s, Host: key, Share: NearShare, Spare: true})
		switch v {
		case Go: // its wait is over
			delete(m.asked, s)
		case Wait: // a thread elsewhere may be left when all has been looked at
			m.far.add(Ask{Slot: s, Host: key})
		}
		return peer, v
	}
	since, asked := time.Time{}, false
	if len(m.asked) > 0 {
		since, asked = m.asked[s]
	}
	if !asked {
		since = now
	}
	// The longer it has waited, the farther it may go: a quarter of the peers, half of them, all. Which of the tasks that may go to all does so is for handFar.
	share := NearShare
	for left := now.Sub(since); left >= patience*m.cfg.Clock.Step && share < 1; left -= patience * m.cfg.Clock.Step {
		share *= 2
	}
	anywhere := share == 1 && how.only == ""
	if anywhere && !how.first {
		share /= 2
	}
	peer, v := m.judge.Room(now, Ask{Slot: s, Host: key, Share: share, Only: how.only})
	switch {
	case v == Go && asked:
		delete(m.asked, s)
	case v == Wait && !asked && len(m.asked) < maxAsked:
		m.asked[s] = since
	case v == Wait && anywhere:
		m.far.add(Ask{Slot: s, Host: key, Pressing: how.first || m.due.Facts(s).Updated == 0, Since: since})
	}
	return peer, v
}

const (
	patience = 2       // ticks that a task waits for a near peer, and as many again for the nearer half
	maxAsked = 1 << 16 // tasks whose wait is counted
)

// outlasts reports whether a task of a channel would not end before all ends.
func outlasts(m *Machine, now time.Time, s recrawl.Slot) bool {
	return !m.cfg.Until.IsZero() && now.Add(m.channels.Expect(s)).After(m.cfg.Until)
}

// Holdup is what keeps a channel back that Due would give out.
type Holdup uint8

// The holdups.
const (
	Nobody     Holdup = iota // nothing: it goes when a thread near its host is free
	Blocking                 // its host is blocked
	Politeness               // its host is being visited, or left alone until its next visit
	Failure                  // its last crawl failed, and it is tried again in a while
	Handing                  // its last handing-out came to nothing, and it is handed out again in a while
	Ending                   // its task would not end before all ends
)

// HoldupOf says what keeps a channel back.
func HoldupOf(m *Machine, now time.Time, s recrawl.Slot) Holdup {
	key := m.channels.Host(s)
	h := m.hosts[key]
	f := m.flights.find(s)
	switch {
	case h.blocked != "":
		return Blocking
	case coming(m, key), h.out != 0, now.Before(h.next()):
		return Politeness
	case now.Before(m.notBefore[s]):
		return Failure
	case f != nil && f.waiting:
		return Handing
	case outlasts(m, now, s):
		return Ending
	}
	return Nobody
}

// occupy keeps other channels of a flight's host back, and free lets them go.
func (m *Machine) occupy(f *flight) {
	if key := m.channels.Host(f.slot); key != 0 && !f.occupies {
		f.occupies = true
		h := m.hosts[key]
		h.out++
		m.hosts[key] = h
	}
}

// free forgets the host at once if nothing else is up with it, so that tidy has few to look at.
func (m *Machine) free(f *flight) {
	if !f.occupies {
		return
	}
	f.occupies = false
	key := m.channels.Host(f.slot)
	h := m.hosts[key]
	h.out--
	if h == (host{}) {
		delete(m.hosts, key)
		return
	}
	m.hosts[key] = h
}

// Visit says whether the owner may visit a host itself now, by the rules for tasks: nobody else is there, it is not blocked, and its next visit has come. If so
// no task of the host goes before Left.
func (m *Machine) Visit(now time.Time, key channel.HostKey) bool {
	h := m.hosts[key]
	if coming(m, key) || h.out != 0 || h.blocked != "" || now.Before(h.next()) {
		return false
	}
	h.out++
	m.hosts[key] = h
	return true
}

// Left ends a Visit. The host is left alone until then.
func (m *Machine) Left(key channel.HostKey, until time.Time) {
	h := m.hosts[key]
	h.out--
	m.hosts[key] = h
	m.Leave(key, until)
}

const tidyEvery = time.Minute // how often hosts whose next visit has come are forgotten

// MostRest bounds how long a host is left alone. A later time is of a clock that was ahead, or of a build before 0.2.0, which believed any time that a peer
// reported: then the host is left alone until the longest lease of a task that is out has ended.
const MostRest = channel.MostRest

// tidy forgets hosts with which nothing is up any more.
func (m *Machine) tidy(now time.Time) {
	if passed := now.Sub(m.tidied); passed >= 0 && passed < tidyEvery {
		return
	}
	m.tidied = now
	hasten(m, now)
	for key, h := range m.hosts {
		if h.next().After(now.Add(MostRest)) {
			h.said, h.noted = now.Add(m.cfg.Terms.Term).Round(0), time.Time{}
			m.hosts[key] = h
		}
		if h.out == 0 && h.blocked == "" && !now.Before(h.next()) {
			delete(m.hosts, key)
		}
	}
}

// hasten has flights wait no longer that wait for a time later than any pause: the clock was ahead when that was said. Nothing of them is out.
func hasten(m *Machine, now time.Time) {
	if m.waiting == 0 {
		return
	}
	latest := nanos(now.Add(max(m.cfg.Terms.MaxBackoff, MostRest)))
	var late []*flight
	for _, p := range m.flights.places {
		if p.at == 0 {
			continue
		}
		if f := m.flights.at(p.at - 1); f.waiting && !f.queued && max(f.due, nanos(f.issue.Deadline())) > latest {
			late = append(late, f)
		}
	}
	for _, f := range late {
		if f.asked {
			m.again(now, f, now)
		} else {
			withdraw(m, f)
		}
	}
}

// Block has nothing handed out on a host; an empty reason lifts it.
func (m *Machine) Block(key channel.HostKey, why string) {
	h := m.hosts[key]
	h.blocked = why
	m.hosts[key] = h
	if why == "" {
		recall(m, key)
	}
}

// recall has tasks that wait to be handed out again come as soon as their host lets them: they were put off by what was known of it then.
func recall(m *Machine, key channel.HostKey) {
	if m.waiting == 0 {
		return
	}
	from := max(nanos(LeftUntil(m, key)), 1)
	for f := range m.flights.all() {
		if f.waiting && !f.queued && f.due > from && m.channels.Host(f.slot) == key {
			f.due = from
			m.arm(f)
		}
	}
}

// Blocked says why a host is blocked; empty: it is not.
func (m *Machine) Blocked(key channel.HostKey) string { return m.hosts[key].blocked }

// Leave has a host left alone until then, or longer if it is already: there is more than one reason, and each alone would do. See Hurry.
//
// What the clock shows is kept: a time that also counts evenly would be moved twice when the clock is set, by itself and by Shift.
func (m *Machine) Leave(key channel.HostKey, until time.Time) {
	if h := m.hosts[key]; until.After(h.said) {
		h.said = until.Round(0)
		m.hosts[key] = h
	}
}

// LeaveNoted is Leave by a record, which an earlier owner may have written by a clock that showed something else.
func LeaveNoted(m *Machine, key channel.HostKey, until time.Time) {
	if h := m.hosts[key]; until.After(h.noted) {
		h.noted = until.Round(0)
		m.hosts[key] = h
	}
}

// LeftUntil is until when a host is left alone, if it is.
func LeftUntil(m *Machine, key channel.HostKey) time.Time {
	return m.hosts[key].next()
}

// Hurry has a host visited at latest at a time.
func (m *Machine) Hurry(key channel.HostKey, latest time.Time) {
	if h := m.hosts[key]; h.next().After(latest) {
		h.said, h.noted = latest.Round(0), time.Time{}
		m.hosts[key] = h
		recall(m, key)
	}
}

// StandOff is how long a channel's host must be left alone if its task is called back now: until the task must have ended. False: none is
// out, or the host is left alone as long anyway.
func (m *Machine) StandOff(now time.Time, s recrawl.Slot) (until time.Time, ok bool) {
	f := m.flights.find(s)
	if f == nil || f.waiting || !f.issue.Out() {
		return time.Time{}, false
	}
	until = now.Add(m.cfg.Terms.Term)
	if at := f.issue.Deadline(); at.After(until) {
		until = at
	}
	return until, until.After(LeftUntil(m, m.channels.Host(s)))
}

// NotBefore has a channel not handed out until then; a time that has passed lifts it. The caller keeps it over a restart, see Until.
func (m *Machine) NotBefore(s recrawl.Slot, until time.Time) {
	if until.IsZero() {
		delete(m.notBefore, s)
		return
	}
	m.notBefore[s] = until.Round(0) // see Leave
}

// Until is what NotBefore was told of a channel last; zero: nothing.
func (m *Machine) Until(s recrawl.Slot) time.Time { return m.notBefore[s] }

// Rests is until when a channel is left alone: by itself, see Until, since its host is, see Leave, or since its last task came to nothing.
func Rests(m *Machine, s recrawl.Slot) (until time.Time) {
	until = m.notBefore[s]
	if host := LeftUntil(m, m.channels.Host(s)); host.After(until) {
		until = host
	}
	if f := m.flights.find(s); f != nil && f.waiting && f.due > 0 {
		if due := time.Unix(0, f.due); due.After(until) {
			until = due
		}
	}
	return until
}
