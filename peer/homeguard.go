package peer

import (
	"context"
	"net/netip"
	"slices"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/wire"
	"shoal/peer/crawl/redact"
	"shoal/peer/limit"
)

const homeEvery = 15 * time.Second // between two looks at this computer's addresses

// guardHome lets h know the addresses that no crawl may reach: those under which others see this computer, and those of
// the members that are connected. It makes a new finder of this computer's addresses when they change.
func (a *Agent) guardHome(ctx context.Context, node *wire.Node, h *limit.Home) {
	var known []netip.Addr
	t := time.NewTicker(homeEvery)
	defer t.Stop()
	for {
		seen, members := connections(node)
		h.Seen(seen...)
		h.Members(members...)
		if own := h.Own(); a.own.Load() == nil || !slices.Equal(own, known) {
			a.own.Store(redact.New(own...))
			known = own
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// connections tells under which addresses others see a node, and from which addresses members are connected to it.
func connections(node *wire.Node) (seen, members []netip.Addr) {
	if m, err := ma.NewMultiaddr(node.Reach().Seen); err == nil {
		if at, ok := addrOf(m); ok {
			seen = append(seen, at)
		}
	}
	for _, c := range node.Host().Network().Conns() {
		if _, is := node.Member(c.RemotePeer()); !is {
			continue
		}
		if at, ok := addrOf(c.RemoteMultiaddr()); ok {
			members = append(members, at)
		}
	}
	return seen, members
}

// addrOf is the IP address of a multiaddr. A connection through a relay has none: its address is the relay's.
func addrOf(m ma.Multiaddr) (netip.Addr, bool) {
	if _, err := m.ValueForProtocol(ma.P_CIRCUIT); err == nil {
		return netip.Addr{}, false
	}
	for _, p := range []int{ma.P_IP4, ma.P_IP6} {
		if v, err := m.ValueForProtocol(p); err == nil {
			a, err := netip.ParseAddr(v)
			return a, err == nil
		}
	}
	return netip.Addr{}, false
}
