package trust

import "slices"

// places are the newcomers' accounts of one address prefix that may be at work: Config.Prefix of them, and those of suspended peers however many they are. The first ones
// have the places until they are established: behind one router, or that of a provider, there may be many volunteers, who come one after the other. Suspended accounts keep
// or take them: else one prefix could send any number of liars. The others lose theirs when they have gone, or have had no task for long while somebody waits; see Vacate.
type places struct {
	holders []holder
	resting []Account // they were idle, and leave their places to others until the next look
	wanted  bool      // somebody was refused a place since the last look
}

// holder is an account that has a place.
type holder struct {
	account Account
	away    uint8 // looks in turn at which none of its newcomers was there
	idle    uint8 // looks in turn without a task since the last one
}

// A place is free again at the awayLooks-th look in turn that finds nobody of its account. Where others wait it is so, too, at the idleLooks-th look without a task, as of
// somebody who is there and lets no crawl run.
const (
	awayLooks = 2
	idleLooks = 24
)

// holder is the place of an account; nil: it has none.
func (at *places) holder(a Account) *holder {
	if at == nil {
		return nil
	}
	for i := range at.holders {
		if at.holders[i].account == a {
			return &at.holders[i]
		}
	}
	return nil
}

// full tells whether an account that has no place gets none now.
func (at *places) full(a Account, most int) bool {
	return at != nil && (len(at.holders) >= most || slices.Contains(at.resting, a))
}

// place tells whether a newcomer's account is among those that its prefix may have at work.
func (m *Machine) place(p *peer) bool {
	at := m.places[p.prefix]
	if at.holder(p.account) != nil {
		return true
	}
	if at.full(p.account, m.cfg.Prefix) {
		at.wanted = true
		return false
	}
	m.occupy(p)
	return true
}

// waits tells whether a peer gets no tasks for want of a place.
func (m *Machine) waits(p *peer) bool {
	at := m.places[p.prefix]
	return p.standing == Newcomer && m.cfg.Enforce && m.established > 0 && m.convicted[p.account] == 0 && at.holder(p.account) == nil && at.full(p.account, m.cfg.Prefix)
}

// occupy gives a peer's account a place, however many have one.
func (m *Machine) occupy(p *peer) {
	at := m.places[p.prefix]
	if at == nil {
		at = new(places)
		m.places[p.prefix] = at
	}
	if at.holder(p.account) == nil {
		at.holders = append(at.holders, holder{account: p.account})
	}
}

// vacate gives the place of an established peer's account free, unless another of its peers there needs it.
func (m *Machine) vacate(p *peer) {
	for _, o := range m.peers {
		if o.account == p.account && o.prefix == p.prefix && o.standing != Established {
			return
		}
	}
	m.drop(p.prefix, func(h *holder) bool { return h.account == p.account })
}

// drop gives the places of some holders free.
func (m *Machine) drop(x Prefix, gone func(*holder) bool) {
	at := m.places[x]
	if at == nil {
		return
	}
	at.holders = slices.DeleteFunc(at.holders, func(h holder) bool { return gone(&h) })
	if len(at.holders)+len(at.resting) == 0 {
		delete(m.places, x)
	}
}

// seat gives a peer that is read from a store, or taken over, what place it had.
func (m *Machine) seat(p *peer) {
	switch {
	case p.standing >= Suspended:
		m.occupy(p)
	case p.standing == Newcomer && p.tasks > 0:
		m.place(p)
	}
}

// keepPlaces gives the places free of accounts that have no peer there any more.
func (m *Machine) keepPlaces() {
	type seat struct {
		Prefix
		Account
	}
	known := map[seat]bool{}
	for _, p := range m.peers {
		known[seat{p.prefix, p.account}] = true
	}
	for x := range m.places {
		m.drop(x, func(h *holder) bool { return !known[seat{x, h.account}] })
	}
}

// Vacate looks at who has places at address prefixes, and gives those free that nobody uses, so that the next volunteer there gets tasks. The host calls it every hour, say;
// here tells whether a peer is there now. Who was away and comes back takes a place as others do.
func (m *Machine) Vacate(here func(Peer) bool) {
	held := map[*holder]bool{} // true: it is a suspended one's
	for n, p := range m.peers {
		h := m.places[p.prefix].holder(p.account)
		switch {
		case h == nil:
		case p.standing >= Suspended:
			held[h] = true
		case p.standing == Newcomer && !held[h] && here(n):
			held[h] = false
		}
	}
	for x, at := range m.places {
		at.resting = at.resting[:0]
		for i := range at.holders {
			h := &at.holders[i]
			suspended, there := held[h]
			if h.away, h.idle = h.away+1, min(h.idle, idleLooks-1)+1; there {
				h.away = 0
			}
			if suspended {
				h.idle = 0
			}
			if there && at.wanted && h.idle >= idleLooks {
				at.resting = append(at.resting, h.account)
			}
		}
		at.wanted = false
		m.drop(x, func(h *holder) bool { return h.away >= awayLooks || slices.Contains(at.resting, h.account) })
	}
}
