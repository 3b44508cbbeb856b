package manager

import (
	"time"

	"shoal/channel"
	"shoal/manager/trust"
	"shoal/overlay"
	"shoal/recrawl"
)

// askedOf is the task for which the judge is asked, while it is. What its functions need lies here, so that asking makes no garbage.
type askedOf struct {
	au       *auditor
	now      time.Time
	of       channel.ID
	last     trust.Peer               // who crawled the channel last; 0: not known
	apart    []trust.Peer             // from whom a checker must be apart
	mayTake  [2]func(overlay.ID) bool // the second one is for a channel on watch
	rather   func(overlay.ID) bool
	sees     func(overlay.ID) bool
	mayCheck func(overlay.ID) bool
}

func newAskedOf(au *auditor) *askedOf {
	a := &askedOf{au: au}
	for i := range a.mayTake {
		a.mayTake[i] = func(id overlay.ID) bool { return au.trust.MayTake(au.meet(id), i == 1) }
	}
	a.rather = func(id overlay.ID) bool { return au.trust.Apart(au.meet(id), a.last) }
	a.sees = func(id overlay.ID) bool { return au.trust.Sees(a.now, au.meet(id), a.of) }
	a.mayCheck = func(id overlay.ID) bool { return au.trust.MayCheck(au.meet(id), a.apart...) }
	return a
}

// suit says which peers may have a task, and which should: an errand goes to a checker, drawn from all, since those who are near a host may be the friends of whoever
// delivered it; a channel to another account and network than the last time and, while it is
// on watch, anywhere; one of which others are to see pages surely to one of these.
func (n *nearness) suit(now time.Time, s recrawl.Slot, ask *overlay.Ask) {
	a := n.asks
	if isErrand(s) {
		a.apart = nil
		if e := n.errands.at(s).errand; e != nil {
			a.apart = e.apart
		}
		ask.May, ask.Anywhere = a.mayCheck, true
		return
	}
	ask.May, ask.Anywhere = n.mayTake(now, s)
	if a.now, a.of = now, n.table.ID(s); n.auditor.strict && n.auditor.enforced && n.auditor.trust.Viewed(a.of) {
		ask.Rather, ask.Surely = a.sees, true
	} else if a.last = n.auditor.roll.last(n.table, s); a.last != 0 {
		ask.Rather = a.rather
	}
}

// mayTake says which peers may crawl a channel, nil if every one may, and whether it is to be crawled anywhere.
func (n *nearness) mayTake(now time.Time, s recrawl.Slot) (may func(overlay.ID) bool, anywhere bool) {
	if !n.auditor.strict {
		return nil, false
	}
	if n.auditor.trust.Watched(now, n.table.ID(s)) {
		return n.asks.mayTake[1], n.auditor.enforced
	}
	return n.asks.mayTake[0], false
}
