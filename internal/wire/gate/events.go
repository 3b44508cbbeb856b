package gate

import (
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
)

// events is a gate as its swarm notifies it.
type events Gate

func (e *events) Listen(_ network.Network, a ma.Multiaddr) {
	for _, f := range (*Gate)(e).watchers() {
		f.Listen((*Gate)(e), a)
	}
}

func (e *events) ListenClose(_ network.Network, a ma.Multiaddr) {
	for _, f := range (*Gate)(e).watchers() {
		f.ListenClose((*Gate)(e), a)
	}
}

func (e *events) Connected(_ network.Network, c network.Conn) {
	g := (*Gate)(e)
	if c.Stat().Direction == network.DirInbound {
		g.cfg.Crowd.connected(c)
	}
	ready := g.cfg.Ready()
	g.mu.Lock()
	l := g.link(c)
	l.timer = time.AfterFunc(g.cfg.Timeout, func() {
		if g.MemberOf(c) == nil {
			g.cfg.Rejected("no_membership")
			Expel(c)
		}
	})
	// Of a hole punched from both sides both ends are outbound.
	l.greeted = c.Stat().Direction == network.DirInbound || g.waiting[c.RemotePeer()] > 0 && !c.Stat().Limited
	if ready && !l.greeted && g.held[c.RemotePeer()] == 0 {
		l.heard = make(chan struct{})
	}
	g.mu.Unlock()
	if l.heard != nil {
		g.cfg.Greet(c, func() { close(l.heard) })
	}
}

func (e *events) Disconnected(_ network.Network, c network.Conn) {
	g := (*Gate)(e)
	g.mu.Lock()
	l := g.links[c]
	if l == nil {
		g.mu.Unlock()
		return
	}
	delete(g.links, c)
	if l.gone = true; g.asking[c.RemotePeer()] > 0 {
		g.ended[c] = l
	}
	was := l.member
	l.timer.Stop()
	select {
	case <-l.decided:
	default:
		close(l.decided)
	}
	g.mu.Unlock()
	g.cfg.Crowd.gone(c)
	if was != nil {
		g.cfg.Left(*was)
	}
	l.order.Lock()
	defer l.order.Unlock()
	if l.told {
		for _, f := range g.watchers() {
			f.Disconnected(g, c)
		}
	}
}
