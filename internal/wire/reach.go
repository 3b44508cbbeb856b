package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	circuit "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/multiformats/go-multistream"

	"shoal/internal/member"
)

// How others reach a node. Its home tells under which address it sees it: one that is none of the node's own is a router's that
// translates, and then the node keeps a reservation at its home, so that others may meet it there to open a direct way. AutoNAT v2 has
// servers dial the public addresses that the node believes in.

// Reach says how a node is reached.
type Reach struct {
	NAT     string   `json:"nat"`               // one of the words below
	Seen    string   `json:"seen,omitempty"`    // the address under which a server sees the node
	Relays  []string `json:"relays,omitempty"`  // where others can meet it: the addresses that it tells
	Direct  int      `json:"direct"`            // connections to members
	Relayed int      `json:"relayed"`           // connections to members that a relay carries
	Rides   int64    `json:"rides"`             // requests that came through its home
	Punched int64    `json:"punched,omitempty"` // direct connections that began at a relay
}

// What stands between a node and the others.
const (
	NATUnknown   = "unknown"                             // no server has told yet
	NATNone      = "none"                                // a server sees the node at its own address
	NATOpen      = "none; reachable from outside"        // and AutoNAT v2 has dialled it there
	NATClosed    = "firewall"                            // its own address, where nobody gets in
	NATPlain     = "address translation"                 // another address
	NATCone      = "address translation, same port"      // every observer sees the same UDP port: holes can be punched
	NATSymmetric = "address translation, changing ports" // each observer sees another: no hole can be punched
)

const (
	reserveAgain = 20 * time.Minute // before a reservation ends
	maxObservers = 64
)

// reach is what a node has learnt of it. Guarded by Node.mu.
type reach struct {
	seen   ma.Multiaddr // by a server
	hidden bool         // the last server to tell saw an address that is not ours
	ports  map[peer.ID]netip.AddrPort
	home   peer.ID // where the reservation is; empty: none
	until  time.Time
	tell   event.Emitter // of EvtAutoRelayAddrsUpdated

	outside   ma.Multiaddr // where a server saw the node over UDP
	outsideAt time.Time
}

// Reach says how the node is reached now.
func (n *Node) Reach() Reach {
	r := Reach{NAT: NATUnknown, Rides: n.rides.Load(), Punched: n.punched.Load()}
	for c := range n.gate.members() {
		if c.Stat().Limited {
			r.Relayed++
		} else {
			r.Direct++
		}
	}
	open, closed, _ := n.host.ConfirmedAddrs()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reach.home != "" {
		r.Relays = []string{circuitAddr(n.reach.home).String()}
	}
	if n.reach.seen == nil {
		return r
	}
	r.Seen = n.reach.seen.String()
	switch {
	case !n.reach.hidden && len(open) > 0:
		r.NAT = NATOpen
	case !n.reach.hidden && len(closed) > 0:
		r.NAT = NATClosed
	case !n.reach.hidden:
		r.NAT = NATNone
	case len(n.reach.ports) < 2:
		r.NAT = NATPlain
	default:
		r.NAT = NATCone
		var first netip.AddrPort
		for _, p := range n.reach.ports {
			if first.IsValid() && p != first {
				r.NAT = NATSymmetric
			}
			first = p
		}
	}
	return r
}

// circuitAddr is where a member can be met: its relay by name, since where that is stands in the network document.
func circuitAddr(relay peer.ID) ma.Multiaddr {
	a, err := ma.NewMultiaddr("/p2p/" + relay.String() + "/p2p-circuit")
	if err != nil {
		panic("wire: circuit address: " + err.Error()) // only for what is no peer id
	}
	return a
}

// RelayOf is the relay of an address at which a member can be met; empty: it is an ordinary address.
func RelayOf(addr string) peer.ID {
	a, err := ma.NewMultiaddr(addr)
	if err != nil {
		return ""
	}
	if _, err := a.ValueForProtocol(ma.P_CIRCUIT); err != nil {
		return ""
	}
	text, err := a.ValueForProtocol(ma.P_P2P)
	if err != nil {
		return ""
	}
	id, err := peer.Decode(text)
	if err != nil {
		return ""
	}
	return id
}

// observe learns from what others tell of us when they are identified. It ends with the node.
func (n *Node) observe(sub event.Subscription) {
	defer sub.Close()
	for {
		select {
		case <-n.ctx.Done():
			return
		case e, ok := <-sub.Out():
			if !ok {
				return
			}
			if id, is := e.(event.EvtPeerIdentificationCompleted); is && id.Conn != nil && id.ObservedAddr != nil {
				n.observed(id.Conn, id.ObservedAddr)
			}
		}
	}
}

func (n *Node) observed(c network.Conn, seen ma.Multiaddr) {
	m := n.gate.memberOf(c)
	if m == nil || c.Stat().Limited {
		return
	}
	ip, err := manet.ToIP(seen)
	if err != nil {
		return
	}
	at, _ := netip.AddrFromSlice(ip)
	own := slices.Contains(ownAddrs(), at.Unmap())
	n.mu.Lock()
	if _, err := seen.ValueForProtocol(ma.P_UDP); err == nil && !own {
		if u, err := manet.ToNetAddr(manetUDP(seen)); err == nil {
			if p, err := netip.ParseAddrPort(u.String()); err == nil {
				if len(n.reach.ports) >= maxObservers {
					clear(n.reach.ports)
				}
				n.reach.ports[c.RemotePeer()] = p
			}
		}
	}
	changed := false
	if m.Role != member.Peer {
		changed = n.reach.hidden != !own
		n.reach.seen, n.reach.hidden = seen, !own
	}
	n.mu.Unlock()
	if changed {
		poke(n.lost) // keepHome looks after the reservation
	}
}

// manetUDP is the address up to its UDP port.
func manetUDP(a ma.Multiaddr) ma.Multiaddr {
	head, _ := ma.SplitFunc(a, func(c ma.Component) bool { return c.Protocol().Code == ma.P_QUIC_V1 })
	return head
}

// ownAddrs are the addresses of this machine's interfaces.
func ownAddrs() (out []netip.Addr) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out
}

// hidden tells whether others cannot dial the node: it listens nowhere, is seen under another's address, or no dial to its own came
// through.
func (n *Node) hidden() bool {
	if !slices.ContainsFunc(n.gate.ListenAddresses(), manet.IsThinWaist) {
		return true
	}
	open, closed, _ := n.host.ConfirmedAddrs()
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(open) == 0 && (n.reach.hidden || len(closed) > 0)
}

// reserve keeps a reservation at home while the node is hidden, and gives it up when it is not.
func (n *Node) reserve(ctx context.Context, home peer.ID) error {
	n.mu.Lock()
	at, until := n.reach.home, n.reach.until
	n.mu.Unlock()
	if !n.hidden() || len(n.cfg.Announce) > 0 { // who announces addresses has had a port forwarded
		if at != "" {
			n.meetAt("", time.Time{})
		}
		return nil
	}
	if at == home && time.Until(until) > reserveAgain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Patience)
	defer cancel()
	r, err := circuit.Reserve(ctx, n.host, peer.AddrInfo{ID: home})
	if err != nil {
		return fmt.Errorf("wire: reservation at %s: %w", home, err)
	}
	n.meetAt(home, r.Expiration)
	return nil
}

// meetAt notes where the reservation is, and has it told to others.
func (n *Node) meetAt(home peer.ID, until time.Time) {
	n.mu.Lock()
	n.reach.home, n.reach.until = home, until
	tell := n.reach.tell
	n.mu.Unlock()
	var addrs []ma.Multiaddr
	if home != "" {
		addrs = append(addrs, circuitAddr(home))
	}
	if err := tell.Emit(event.EvtAutoRelayAddrsUpdated{RelayAddrs: addrs}); err != nil {
		n.log.Debug("relay address not told", "err", err)
	}
}

// Relays are where a member can meet this node; empty while it can be dialled.
func (n *Node) Relays() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reach.home == "" {
		return nil
	}
	return []string{circuitAddr(n.reach.home).String()}
}

// dialBack hands an AutoNAT server's stream, which comes on a connection of nobody's, to the part of the host that waits for it. It
// brings one number, which is compared with those asked for, and nothing else.
func (n *Node) dialBack(s network.Stream) {
	h, err := handlerOf(n.host.Mux(), autonatv2.DialBackProtocol)
	if err == nil {
		err = s.SetProtocol(autonatv2.DialBackProtocol)
	}
	if err == nil {
		err = h(autonatv2.DialBackProtocol, s)
	}
	if err != nil {
		reset(s)
	}
}

// handlerOf asks a host's protocols for one, as another host would.
func handlerOf(mux protocol.Switch, p protocol.ID) (protocol.HandlerFunc, error) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	asked := make(chan error, 1)
	go func() {
		defer theirs.Close()
		asked <- multistream.SelectProtoOrFail(p, io.ReadWriteCloser(theirs))
	}()
	_, h, err := mux.Negotiate(ours)
	if err != nil {
		return nil, err
	}
	if err := <-asked; err != nil {
		return nil, err
	}
	if h == nil {
		return nil, errors.New("wire: no handler")
	}
	return h, nil
}
