package manager

import (
	"shoal/manager/trust"
	"shoal/overlay"
)

// circle is the members that an auditor has met. The loop owns it.
type circle struct {
	met     map[overlay.ID]acquaintance
	named   map[trust.Peer]overlay.ID // the same by number
	mostMet int
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
