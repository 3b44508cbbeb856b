package wire

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	blankhost "github.com/libp2p/go-libp2p/p2p/host/blank"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/observedaddrs"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	circuit "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	relay "github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"shoal/internal/member"
)

// services are libp2p's for members behind routers. Peers have themselves dialled and meet at relays; servers dial and relay.
type services struct {
	bus      event.Bus
	upgrader transport.Upgrader
	udp      transport.Transport    // QUIC, through which holes are punched; nil: none
	tell     event.Emitter          // of EvtAutoRelayAddrsUpdated
	observer *observedaddrs.Manager // peers
	autonat  *autonatv2.AutoNAT
	relay    *relay.Relay // servers
	dials    bool         // servers: autonat runs
}

// prepare makes what the host is built with. dialer dials back for others.
func (s *services) prepare(net network.Network, dialer *blankhost.BlankHost, role member.Role, o []autonatv2.AutoNATOption, opts *basichost.HostOpts) (err error) {
	s.bus = opts.EventBus
	if s.autonat, err = autonatv2.New(dialer, o...); err != nil {
		return err
	}
	if role != member.Peer {
		return nil
	}
	if s.observer, err = observedaddrs.NewManager(s.bus, net); err != nil {
		return err
	}
	opts.AutoNATv2, opts.ObservedAddrsManager = s.autonat, s.observer
	return nil
}

// start starts it, once the host runs.
func (r *reach) start() error {
	if r.role != member.Peer {
		if err := r.autonat.Start(r.host); err != nil {
			return err
		}
		r.dials = true
		return r.startRelay()
	}
	r.host.RemoveStreamHandler(autonatv2.DialProtocol) // only servers dial for others
	var err error
	if r.tell, err = r.bus.Emitter(new(event.EvtAutoRelayAddrsUpdated)); err != nil {
		return err
	}
	if err := circuit.AddTransport(r.host, r.upgrader); err != nil {
		return err
	}
	r.observer.Start(r.gate)
	sub, err := r.bus.Subscribe(new(event.EvtPeerIdentificationCompleted), eventbus.Name("shoal reach"))
	if err != nil {
		return err
	}
	r.life.spawn(func(ctx context.Context) { r.observe(ctx, sub) })
	return nil
}

// startRelay lets members meet here: as many as may be connected, since a company's share an address, for as little as it takes to punch
// a hole. What they have to say to each other rides, or goes the direct way then.
func (r *reach) startRelay() error {
	with := relay.DefaultResources()
	with.MaxReservations, with.MaxReservationsPerIP, with.MaxReservationsPerASN = r.limits.Conns, r.limits.PerAddr, r.limits.Conns
	with.Limit = &relay.RelayLimit{Duration: relayTime, Data: relayBytes}
	var err error
	r.relay, err = relay.New(r.host, relay.WithResources(with), relay.WithReservationAddressFilter(func(a ma.Multiaddr) bool { return !manet.IsIPLoopback(a) }))
	return err
}

// What a relayed connection may carry, each way: two certificates, a network document, who is who.
const (
	relayTime  = 2 * time.Minute
	relayBytes = 128 << 10
)

// stop stops what the host does not stop itself, before it closes.
func (r *reach) stop() {
	if r.relay != nil {
		r.relay.Close()
	}
	r.mu.Lock()
	holes := r.holes // none comes any more, for the node is closing
	r.mu.Unlock()
	if holes != nil {
		holes.Close()
	}
	if r.observer != nil {
		r.observer.Close()
	}
	if r.dials {
		r.autonat.Close()
	}
	if r.tell != nil {
		r.tell.Close()
	}
}

// leftServer forgets a reservation that ended with its connection.
func (r *reach) leftServer(id peer.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.home == id {
		r.home, r.until = "", time.Time{}
	}
}
