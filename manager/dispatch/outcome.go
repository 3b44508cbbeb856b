package dispatch

import (
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/recrawl"
)

// of is the flight that an order is about; nil: it has ended, or another handing-out is out by now.
func (m *Machine) of(o Order) *flight {
	m.placing--
	f := m.flights.find(o.Slot)
	if f == nil || f.serial != o.serial || f.issue.Gen != o.Gen {
		return nil
	}
	return f
}

// Placed says that a peer took the task, and will start it then. It tells whether that is news.
func (m *Machine) Placed(now time.Time, o Order, peer Peer, start time.Time) bool {
	m.sums(o.Slot).Accepted++
	f := m.of(o)
	if f == nil {
		return false
	}
	m.carry(f, peer)
	f.took = true
	m.follow(now, f, f.issue.Placed(o.Gen))
	wait := float32(start.Sub(now).Seconds() / m.cfg.Clock.Step.Seconds())
	m.due.Observe(m.cfg.Clock.At(now), o.Slot, recrawl.Event{Kind: recrawl.Accepted, Wait: max(wait, 0)})
	return true
}

// Refused says that for certain no peer could start the task in time: the swarm has more than it can do. A channel that was crawled before
// is left to Due, which learns of it; one that never was, or that CrawlNow asked for, is offered again soon.
func (m *Machine) Refused(now time.Time, o Order) bool {
	m.sums(o.Slot).Refused++
	f := m.of(o)
	if f == nil || f.issue.Refused(o.Gen) == 0 {
		return false // the claim came first: a peer has it after all
	}
	m.pushBack(now)
	m.persist(f)
	if f.issue.Out() { // an older generation came back meanwhile
		return true
	}
	m.free(f)
	if f.asked || m.due.Facts(o.Slot).Updated == 0 {
		retry(m, now, f, now.Add(firstAgain*m.cfg.Clock.Step))
		return true
	}
	m.due.Observe(m.cfg.Clock.At(now), o.Slot, recrawl.Event{Kind: recrawl.Refused})
	m.land(f)
	return true
}

// firstAgain is after how many ticks a channel that was never crawled is offered again when it was refused.
const firstAgain = 5

// Unsure says that placing broke off: an offer may have reached a peer, so the claim is awaited.
func (m *Machine) Unsure(now time.Time, o Order) bool {
	f := m.of(o)
	if f == nil {
		return false
	}
	m.follow(now, f, f.issue.Placed(o.Gen))
	return true
}

// Unsent says that the task never left, which is no sign of overload. It is handed out again after a while.
func (m *Machine) Unsent(now time.Time, o Order, after time.Duration) bool {
	f := m.of(o)
	if f == nil || f.issue.Refused(o.Gen) == 0 {
		return false
	}
	m.back(now, f, now.Add(after))
	return true
}

// Outran says that the archive knows generations up to highest, above that of the order: the manager's data is older. A higher one is
// handed out at once.
func (m *Machine) Outran(now time.Time, o Order, highest channel.Gen) bool {
	f := m.of(o)
	if f == nil || f.issue.Outran(o.Gen, highest) == 0 {
		return false
	}
	m.back(now, f, now)
	return true
}

// back ends the handing-out of a flight, unless it was handed out again meanwhile.
func (m *Machine) back(now time.Time, f *flight, from time.Time) {
	m.persist(f)
	if f.issue.Out() {
		return
	}
	m.free(f)
	retry(m, now, f, from)
}

const (
	pushBackFirst = 100 * time.Millisecond
	pushBackMost  = 30 * time.Second // or four ticks, if those are shorter
)

// pushBack slows down after a refusal, each time twice as long; a report speeds up again.
func (m *Machine) pushBack(now time.Time) {
	m.pushedBack = min(max(2*m.pushedBack, pushBackFirst), min(pushBackMost, 4*m.cfg.Clock.Step))
	m.holdUntil = now.Add(m.pushedBack)
}

// Heard is what became of an event of the feed.
type Heard struct {
	Effect lease.Effect
	Issue  lease.Issue // after it
	Issued time.Time   // of the task that was out; zero: the Machine knew of none
	Ran    bool        // the lease that the event is about ran until then
}

// Hear takes an event of the archive's feed, of a task that peer has or had. If it is a report that counts (lease.Apply), the caller tells Due
// what it taught; the channel is idle then, unless a younger generation is still out.
func (m *Machine) Hear(now time.Time, s recrawl.Slot, e lease.Event, peer Peer) (Heard, error) {
	f := m.flights.find(s)
	if f == nil {
		issue, err := m.channels.Issue(s)
		if err != nil {
			return Heard{}, err
		}
		effect := issue.Apply(now, e, m.terms())
		if !issue.Out() {
			if effect&lease.Persist != 0 {
				m.acts = append(m.acts, Act{Kind: Persist, Slot: s, Issue: issue})
			}
			return m.heard(effect, issue, time.Time{}), nil
		}
		f = m.takeOff(now, s, issue) // the archive knew of it, the manager did not
		m.due.Edit(s, func(f *recrawl.Facts) { f.Out, f.Submitted = 1, max(f.Submitted, m.cfg.Clock.At(now)) })
		return m.apply(now, f, e, effect, peer), nil
	}
	ran := f.issue.Phase == lease.Leased && f.issue.Live == e.Gen
	h := m.apply(now, f, e, f.issue.Apply(now, e, m.terms()), peer)
	h.Ran = ran
	return h, nil
}

// apply does what an event asks for whose effect on the flight's issue is known.
func (m *Machine) apply(now time.Time, f *flight, e lease.Event, effect lease.Effect, peer Peer) Heard {
	if f.waiting && f.issue.Out() { // a claim after all
		f.waiting, f.queued = false, false
		m.waiting--
	}
	if effect != 0 && (e.Kind == lease.Claimed || e.Kind == lease.Revived) {
		m.carry(f, peer)
		f.took, f.anew = false, false
	}
	if f.anew && e.Kind == lease.Released && f.issue.Withdraw() != 0 { // no pause is due, since nothing has failed
		f.anew = false
	}
	if f.issue.Out() {
		m.occupy(f)
	}
	h := m.heard(effect, f.issue, f.issued)
	switch {
	case effect&lease.Apply == 0:
		if effect != 0 {
			m.follow(now, f, effect)
		}
	case f.issue.Out(): // a younger generation is still out unclaimed
		m.persist(f)
		m.arm(f)
	default:
		m.persist(f)
		m.land(f)
	}
	return h
}

func (m *Machine) heard(effect lease.Effect, issue lease.Issue, issued time.Time) Heard {
	if effect&lease.Apply != 0 {
		m.pushedBack, m.holdUntil = 0, time.Time{}
	}
	return Heard{Effect: effect, Issue: issue, Issued: issued}
}
