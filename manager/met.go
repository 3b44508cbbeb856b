package manager

import (
	"time"

	"shoal/manager/trust"
	"shoal/overlay"
)

// circle is the members that an auditor has met. The loop owns it.
type circle struct {
	met     map[overlay.ID]acquaintance
	named   map[trust.Peer]overlay.ID // the same by number
	mostMet int
	placed  time.Time // when the places of newcomers were last looked at
}

func newCircle() circle {
	return circle{met: map[overlay.ID]acquaintance{}, named: map[trust.Peer]overlay.ID{}, mostMet: maxMet}
}

// nameOf is the id of a peer that the Machine knows by number; empty: it was not met lately.
func (c *circle) nameOf(n trust.Peer) string { return string(c.named[n]) }

// thin makes room among the members that were met: those that have gone are left out, as the archive has written down who claimed a task. Of those that
// never did nothing is known at all, but what the operator said of them.
func (c *circle) thin(m *trust.Machine, v *overlay.View) {
	gone := func(id overlay.ID, n trust.Peer) bool {
		p, _ := m.Peer(n)
		return v.Index(id) < 0 && (p.Standing != trust.Established || p.Tasks > 0)
	}
	for id, a := range c.met {
		if gone(id, a.number) {
			delete(c.met, id)
			delete(c.named, a.number)
		}
	}
	c.forget(m)
}

// forget has the Machine forget those of which nothing is known, but members that were met.
func (c *circle) forget(m *trust.Machine) {
	m.Forget(func(n trust.Peer) bool { return c.named[n] != "" })
}

// placesEvery is how often it is looked at which newcomers have the places of their address prefixes.
const placesEvery = time.Hour

// vacate has the Machine give those places free now and then that nobody uses, first when members have had the time to come back to a manager that has just started.
func (c *circle) vacate(now time.Time, m *trust.Machine, v *overlay.View) {
	since := now.Sub(c.placed)
	if 0 <= since && since < placesEvery {
		return
	}
	first := c.placed.IsZero()
	if c.placed = now; first {
		return
	}
	m.Vacate(func(n trust.Peer) bool {
		id, met := c.named[n]
		return met && v.Index(id) >= 0
	})
}
