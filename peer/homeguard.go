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

const homeEvery = 15 * time.Second // between two looks at the connections

// guardHome keeps h told of the addresses that no crawl may reach: those under which others see this computer, and those of members that are connected. It makes the finder of this
// computer's addresses anew when they change.
func (a *Agent) guardHome(ctx context.Context, node *wire.Node, h *limit.Home) {
	var known []netip.Addr
	t := time.NewTicker(homeEvery)
	defer t.Stop()
	for {
		if seen, ok := addrOf(node.Reach().Seen); ok {
			h.Seen(seen)
		}
		for _, c := range node.Host().Network().Conns() {
			if _, is := node.Member(c.RemotePeer()); !is {
				continue
			}
			if at, ok := addrOf(c.RemoteMultiaddr().String()); ok {
				h.Members(at)
			}
		}
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

// addrOf is the IP address of a multiaddr. A connection through a relay has none: its address is the relay's.
func addrOf(text string) (netip.Addr, bool) {
	m, err := ma.NewMultiaddr(text)
	if err != nil {
		return netip.Addr{}, false
	}
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
