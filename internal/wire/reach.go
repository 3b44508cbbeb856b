package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	circuit "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
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
	NATClosed    = "firewall"                            // its own address, which accepts no connections from outside
	NATPlain     = "address translation"                 // another address
	NATCone      = "address translation, same port"      // every observer sees the same UDP port: holes can be punched
	NATSymmetric = "address translation, changing ports" // each observer sees another: no hole can be punched
)

const (
	reserveAgain = 20 * time.Minute // before a reservation ends
	maxObservers = 64
)

// reach finds out how others reach a node, and lets them where a router stands between.
type reach struct {
	*conns
	bar       func(ma.Multiaddr) bool
	role      member.Role
	patience  time.Duration
	forwarded bool // addresses are announced: a port is forwarded
	limits    Limits
	calls     *calls
	numbers   *numbers
	life      *life
	log       *slog.Logger
	lost      chan struct{} // wakes home, which looks after the reservation
	services

	mu         sync.Mutex   // guards all below
	seen       ma.Multiaddr // by a server
	translated bool         // the last server to tell saw an address that is not ours
	ports      map[peer.ID]netip.AddrPort
	home       peer.ID // where the reservation is; empty: none
	until      time.Time
	outside    ma.Multiaddr // where a server saw the node over UDP
	outsideAt  time.Time
	holes      *holepunch.Service // of peers, once they know where they are seen
}

// Reach says how the node is reached now.
func (r *reach) Reach() Reach {
	out := Reach{Rides: r.numbers.rides.Load(), Punched: r.numbers.punched.Load()}
	for c := range r.gate.Members() {
		if c.Stat().Limited {
			out.Relayed++
		} else {
			out.Direct++
		}
	}
	open, closed, _ := r.host.ConfirmedAddrs()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.home != "" {
		out.Relays = []string{circuitAddr(r.home).String()}
	}
	if r.seen != nil {
		out.Seen = r.seen.String()
	}
	out.NAT = r.between(len(open) > 0, len(closed) > 0)
	return out
}

// between is the word for what stands between the node and the others; mu is held.
func (r *reach) between(open, closed bool) string {
	switch {
	case r.seen == nil:
		return NATUnknown
	case !r.translated && open:
		return NATOpen
	case !r.translated && closed:
		return NATClosed
	case !r.translated:
		return NATNone
	case len(r.ports) < 2:
		return NATPlain
	}
	var first netip.AddrPort
	for _, p := range r.ports {
		if first.IsValid() && p != first {
			return NATSymmetric
		}
		first = p
	}
	return NATCone
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
func (r *reach) observe(ctx context.Context, sub event.Subscription) {
	defer sub.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-sub.Out():
			if !ok {
				return
			}
			if id, is := e.(event.EvtPeerIdentificationCompleted); is && id.Conn != nil && id.ObservedAddr != nil {
				r.observed(id.Conn, id.ObservedAddr)
			}
		}
	}
}

func (r *reach) observed(c network.Conn, seen ma.Multiaddr) {
	m := r.gate.MemberOf(c)
	if m == nil || c.Stat().Limited {
		return
	}
	ip, err := manet.ToIP(seen)
	if err != nil {
		return
	}
	at, _ := netip.AddrFromSlice(ip)
	own := slices.Contains(ownAddrs(), at.Unmap())
	r.mu.Lock()
	if _, err := seen.ValueForProtocol(ma.P_UDP); err == nil && !own {
		if u, err := manet.ToNetAddr(manetUDP(seen)); err == nil {
			if p, err := netip.ParseAddrPort(u.String()); err == nil {
				if len(r.ports) >= maxObservers {
					clear(r.ports)
				}
				r.ports[c.RemotePeer()] = p
			}
		}
	}
	changed := false
	if m.Role != member.Peer {
		changed = r.translated != !own
		r.seen, r.translated = seen, !own
	}
	r.mu.Unlock()
	if changed {
		poke(r.lost) // keepHome looks after the reservation
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

// hidden reports whether others cannot dial the node: it listens nowhere, is seen under another's address, or no dial to its own came
// through.
func (r *reach) hidden() bool {
	if !slices.ContainsFunc(r.gate.ListenAddresses(), manet.IsThinWaist) {
		return true
	}
	open, closed, _ := r.host.ConfirmedAddrs()
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(open) == 0 && (r.translated || len(closed) > 0)
}

// reserve keeps a reservation at home while the node is hidden, and gives it up when it is not.
func (r *reach) reserve(ctx context.Context, home peer.ID) error {
	r.mu.Lock()
	at, until := r.home, r.until
	r.mu.Unlock()
	if !r.hidden() || r.forwarded {
		if at != "" {
			r.meetAt("", time.Time{})
		}
		return nil
	}
	if at == home && time.Until(until) > reserveAgain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	reservation, err := circuit.Reserve(ctx, r.host, peer.AddrInfo{ID: home})
	if err != nil {
		return fmt.Errorf("wire: reservation at %s: %w", home, err)
	}
	r.meetAt(home, reservation.Expiration)
	r.log.Debug("others can meet this node at its home", "server", home)
	return nil
}

// meetAt notes where the reservation is, and has it told to others.
func (r *reach) meetAt(home peer.ID, until time.Time) {
	r.mu.Lock()
	r.home, r.until = home, until
	tell := r.tell
	r.mu.Unlock()
	var addrs []ma.Multiaddr
	if home != "" {
		addrs = append(addrs, circuitAddr(home))
	}
	if err := tell.Emit(event.EvtAutoRelayAddrsUpdated{RelayAddrs: addrs}); err != nil {
		r.log.Debug("relay address not told", "err", err)
	}
}

// Relays are where a member can meet this node; empty while it can be dialled.
func (r *reach) Relays() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.home == "" {
		return nil
	}
	return []string{circuitAddr(r.home).String()}
}

// dialBack passes an AutoNAT server's stream, which comes from a non-member, to the part of the host that waits for
// it. The stream brings one number, which is compared with those asked for, and nothing else.
func (r *reach) dialBack(s network.Stream) {
	h, err := handlerOf(r.host.Mux(), autonatv2.DialBackProtocol)
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
