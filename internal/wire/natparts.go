package wire

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	blankhost "github.com/libp2p/go-libp2p/p2p/host/blank"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/observedaddrs"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	circuit "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	relay "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"shoal/internal/member"
)

// natParts are libp2p's services for members behind routers. Peers have themselves dialled and meet at relays; servers dial and relay.
type natParts struct {
	bus      event.Bus
	observed *observedaddrs.Manager // peers
	autonat  *autonatv2.AutoNAT
	holes    *holepunch.Service // peers, once they know where they are seen; guarded by Node.mu
	relay    *relay.Relay       // servers
	dials    bool               // servers: autonat runs
}

// prepareReach makes what the host is built with.
func (n *Node) prepareReach(net network.Network, bus event.Bus, resources network.ResourceManager, opts *basichost.HostOpts) (err error) {
	n.nat.bus = bus
	dialer, err := n.stranger(resources)
	if err != nil {
		return err
	}
	if n.nat.autonat, err = autonatv2.New(dialer, n.cfg.autonat...); err != nil {
		return err
	}
	if n.cfg.Role != member.Peer {
		return nil
	}
	if n.nat.observed, err = observedaddrs.NewManager(bus, net); err != nil {
		return err
	}
	opts.AutoNATv2, opts.ObservedAddrsManager = n.nat.autonat, n.nat.observed
	return nil
}

// stranger is a host that dials as nobody's member, from other ports, so that it finds out whether strangers get in. Peers dial nobody
// for others: theirs can do nothing.
func (n *Node) stranger(resources network.ResourceManager) (*blankhost.BlankHost, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, err
	}
	bus := eventbus.NewBus()
	sw, err := n.swarm(key, bus, resources)
	if err != nil {
		return nil, err
	}
	if n.cfg.Role != member.Peer {
		if _, err := n.transports(sw, key, resources); err != nil {
			return nil, err
		}
	}
	h := blankhost.NewBlankHost(sw, blankhost.WithEventBus(bus))
	if h == nil {
		return nil, fmt.Errorf("no host to dial back from")
	}
	return h, nil
}

// startReach starts it, once the host runs.
func (n *Node) startReach() error {
	if n.cfg.Role != member.Peer {
		if err := n.nat.autonat.Start(n.host); err != nil {
			return err
		}
		n.nat.dials = true
		return n.startRelay()
	}
	n.host.RemoveStreamHandler(autonatv2.DialProtocol) // only servers dial for others
	var err error
	if n.reach.tell, err = n.nat.bus.Emitter(new(event.EvtAutoRelayAddrsUpdated)); err != nil {
		return err
	}
	if err := circuit.AddTransport(n.host, n.upgrader); err != nil {
		return err
	}
	n.nat.observed.Start(n.gate)
	sub, err := n.nat.bus.Subscribe(new(event.EvtPeerIdentificationCompleted), eventbus.Name("shoal reach"))
	if err != nil {
		return err
	}
	n.gate.spawn(func() { n.observe(sub) })
	return nil
}

// startRelay lets members meet here: as many as may be connected, since a company's share an address, for as little as it takes to punch
// a hole. What they have to say to each other rides, or goes the direct way then.
func (n *Node) startRelay() error {
	r := relay.DefaultResources()
	r.MaxReservations, r.MaxReservationsPerIP, r.MaxReservationsPerASN = n.cfg.Limits.Conns, n.cfg.Limits.PerAddr, n.cfg.Limits.Conns
	r.Limit = &relay.RelayLimit{Duration: relayTime, Data: relayBytes}
	var err error
	n.nat.relay, err = relay.New(n.host, relay.WithResources(r), relay.WithReservationAddressFilter(func(a ma.Multiaddr) bool { return !manet.IsIPLoopback(a) }))
	return err
}

// What a relayed connection may carry, each way: two certificates, a network document, who is who.
const (
	relayTime  = 2 * time.Minute
	relayBytes = 128 << 10
)

// stopReach stops what the host does not stop itself, before it closes.
func (n *Node) stopReach() {
	if n.nat.relay != nil {
		n.nat.relay.Close()
	}
	n.mu.Lock()
	holes := n.nat.holes // none comes any more, for the node is closing
	n.mu.Unlock()
	if holes != nil {
		holes.Close()
	}
	if n.nat.observed != nil {
		n.nat.observed.Close()
	}
	if n.nat.dials {
		n.nat.autonat.Close()
	}
	if n.reach.tell != nil {
		n.reach.tell.Close()
	}
}

// leftServer forgets a reservation that ended with its connection.
func (n *Node) leftServer(id peer.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reach.home == id {
		n.reach.home, n.reach.until = "", time.Time{}
	}
}
