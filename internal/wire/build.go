package wire

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/core/transport"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/libp2p/go-libp2p/x/rate"
	ma "github.com/multiformats/go-multiaddr"
	madns "github.com/multiformats/go-multiaddr-dns"
	quicgo "github.com/quic-go/quic-go"

	"shoal/internal/member"
)

// connGrace is for how long nobody closes a new connection: an exchange of the overlay is over by then.
const connGrace = 8 * time.Second

// build puts the host together from its parts. The library's own constructor would link transports that are never used (WebRTC,
// WebTransport) and leave no place for the gate.
func (n *Node) build(key crypto.PrivKey, announce []ma.Multiaddr) (err error) {
	defer func() {
		if err != nil {
			n.undoAll()
			err = fmt.Errorf("wire: %w", err)
		}
	}()
	resources, err := n.cfg.Limits.manager()
	if err != nil {
		return err
	}
	n.undo = append(n.undo, resources.Close)
	conns, err := connmgr.NewConnManager(n.cfg.Limits.LowConns, n.cfg.Limits.Held, connmgr.WithGracePeriod(connGrace), connmgr.WithSilencePeriod(connGrace/2))
	if err != nil {
		return err
	}
	n.undo = append(n.undo, conns.Close)
	names, err := madns.NewResolver(madns.WithDefaultResolver(cmp.Or(n.cfg.Names, net.DefaultResolver)))
	if err != nil {
		return err
	}
	bus := eventbus.NewBus()
	sw, err := n.swarm(key, bus, resources, swarm.WithMetrics(n.traffic), swarm.WithDialRanker(n.rank),
		swarm.WithMultiaddrResolver(swarm.ResolverFromMaDNS{Resolver: names}))
	if err != nil {
		return err
	}
	up, err := n.transports(sw, key, resources)
	if err != nil {
		return err
	}

	g := newGate(sw, n.cfg.Gate)
	g.now, g.greet, g.answer, g.rejected = n.Now, n.greet, n.answer, n.rejected
	g.ready = n.valid
	g.left = func(m Member) {
		if m.Role != member.Peer {
			n.leftServer(m.Peer)
			poke(n.lost)
		}
	}
	opts := &basichost.HostOpts{
		EventBus:           bus,
		ConnManager:        conns,
		UserAgent:          "shoal/" + n.version(),
		ProtocolVersion:    "shoal/1",
		NegotiationTimeout: n.cfg.Patience,
		AddrsFactory: func(own []ma.Multiaddr) []ma.Multiaddr {
			return append(own[:len(own):len(own)], announce...)
		},
	}
	if err := n.prepareReach(g, bus, resources, opts); err != nil {
		return err
	}
	h, err := basichost.NewHost(g, opts)
	if err != nil {
		return err
	}
	n.gate, n.host, n.upgrader = g, h, up
	return nil
}

// undoAll gives back what building took, last first.
func (n *Node) undoAll() {
	for i := len(n.undo) - 1; i >= 0; i-- {
		_ = n.undo[i]() // the first error is what is told
	}
	n.undo = nil
}

// swarm makes one with an empty peerstore.
func (n *Node) swarm(key crypto.PrivKey, bus event.Bus, resources network.ResourceManager, opts ...swarm.Option) (*swarm.Swarm, error) {
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	store, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, err
	}
	n.undo = append(n.undo, store.Close)
	if err := store.AddPrivKey(id, key); err != nil {
		return nil, err
	}
	if err := store.AddPubKey(id, key.GetPublic()); err != nil {
		return nil, err
	}
	sw, err := swarm.NewSwarm(id, store, bus, append(opts, swarm.WithResourceManager(resources), swarm.WithDialTimeout(n.cfg.Patience), swarm.WithDialTimeoutLocal(n.cfg.Patience/2),
		swarm.WithUDPBlackHoleSuccessCounter(nil), swarm.WithIPv6BlackHoleSuccessCounter(nil))...)
	if err != nil {
		return nil, err
	}
	n.undo = append(n.undo, sw.Close)
	return sw, nil
}

// transports gives a swarm TCP and, if asked, QUIC. QUIC's sockets close with the node.
func (n *Node) transports(sw *swarm.Swarm, key crypto.PrivKey, resources network.ResourceManager) (transport.Upgrader, error) {
	mux := *yamux.DefaultTransport
	mux.MaxStreamWindowSize = maxWindow
	mux.ConnectionWriteTimeout, mux.KeepAliveInterval, mux.MeasureRTTInterval = n.cfg.Patience, keepAlive, rttEvery
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: &mux}}
	secure, err := noise.New(noise.ID, key, muxers)
	if err != nil {
		return nil, err
	}
	up, err := upgrader.New([]sec.SecureTransport{secure}, muxers, nil, resources, nil, upgrader.WithAcceptTimeout(n.cfg.Patience*3/2))
	if err != nil {
		return nil, err
	}
	// With port reuse two programs could listen on one port and each get half of the connections.
	tcpT, err := tcp.NewTCPTransport(up, resources, nil, tcp.DisableReuseport())
	if err != nil {
		return nil, err
	}
	if err := sw.AddTransport(sockets{tcpT, n, up, resources}); err != nil {
		return nil, err
	}
	if !n.cfg.QUIC {
		return up, nil
	}
	cm, err := n.quicSockets(key, resources)
	if err != nil {
		return nil, err
	}
	n.quic = append(n.quic, cm)
	quicT, err := quic.NewTransport(key, cm, nil, nil, resources)
	if err != nil {
		return nil, err
	}
	if n.udp == nil { // of the node itself, not of the stranger that it dials as
		n.udp = quicT
	}
	return up, sw.AddTransport(quicT)
}

func (n *Node) quicSockets(key crypto.PrivKey, resources network.ResourceManager) (*quicreuse.ConnManager, error) {
	seed, err := key.Raw()
	if err != nil {
		return nil, err
	}
	var reset quicgo.StatelessResetKey
	var token quicgo.TokenGeneratorKey
	for purpose, out := range map[string][]byte{"shoal quic reset": reset[:], "shoal quic token": token[:]} {
		b, err := hkdf.Key(sha256.New, seed, nil, purpose, len(out))
		if err != nil {
			return nil, err
		}
		copy(out, b)
	}
	return quicreuse.NewConnManager(reset, token, quicreuse.VerifySourceAddress(resources.VerifySourceAddress),
		quicreuse.OverrideListenUDP(n.listenUDP),
		quicreuse.ConnContext(func(ctx context.Context, from *quicgo.ClientInfo) (context.Context, error) {
			addr, err := quicreuse.ToQuicMultiaddr(from.RemoteAddr, quicgo.Version1)
			if err != nil {
				return ctx, err
			}
			scope, err := resources.OpenConnection(network.DirInbound, false, addr)
			if err != nil {
				return ctx, err
			}
			context.AfterFunc(ctx, scope.Done)
			return network.WithConnManagementScope(ctx, scope), nil
		}))
}

// rank has servers dialled by TCP first, since what goes to an archive is paced there, and others as the library does.
func (n *Node) rank(addrs []ma.Multiaddr) []network.AddrDelay {
	known := n.servers.Load()
	if known == nil || !slices.ContainsFunc(addrs, func(a ma.Multiaddr) bool { return (*known)[string(a.Bytes())] }) {
		return swarm.DefaultDialRanker(addrs)
	}
	out := swarm.DefaultDialRanker(slices.DeleteFunc(slices.Clone(addrs), isQUIC))
	for _, a := range addrs {
		if isQUIC(a) {
			out = append(out, network.AddrDelay{Addr: a, Delay: 3 * time.Second})
		}
	}
	return out
}

func isQUIC(a ma.Multiaddr) bool {
	_, err := a.ValueForProtocol(ma.P_QUIC_V1)
	return err == nil
}

func (n *Node) version() string {
	if n.cfg.Version == "" {
		return "dev"
	}
	return n.cfg.Version
}

// manager is the resource manager of these limits. Scopes that libp2p counts beside ours (per service, per protocol) get no narrower
// limit than the system as a whole; what bounds a single peer is PeerDefault.
func (l Limits) manager() (network.ResourceManager, error) {
	big := rcmgr.ResourceLimits{Streams: rcmgr.LimitVal(l.Streams), StreamsInbound: rcmgr.LimitVal(l.Streams), StreamsOutbound: rcmgr.LimitVal(l.Streams),
		Conns: rcmgr.LimitVal(l.Conns + l.Conns/4), ConnsInbound: rcmgr.LimitVal(l.Conns + l.Conns/4), ConnsOutbound: rcmgr.LimitVal(l.Conns + l.Conns/4),
		FD: rcmgr.LimitVal(l.Conns + l.Conns/4), Memory: rcmgr.LimitVal64(l.Memory)}
	// Connections in their handshake, streams in negotiation.
	transient := big
	transient.Conns, transient.ConnsInbound, transient.ConnsOutbound = rcmgr.LimitVal(max(64, l.Conns/8)), rcmgr.LimitVal(max(48, l.Conns/8)), rcmgr.LimitVal(max(64, l.Conns/8))
	one := rcmgr.ResourceLimits{Streams: 256, StreamsInbound: 128, StreamsOutbound: 192, Conns: 8, ConnsInbound: 4, ConnsOutbound: 4,
		FD: 8, Memory: rcmgr.LimitVal64(min(l.Memory, 32<<20))}
	partial := rcmgr.PartialLimitConfig{System: big, Transient: transient, AllowlistedSystem: big, AllowlistedTransient: transient,
		ServiceDefault: big, ServicePeerDefault: one, ProtocolDefault: big, ProtocolPeerDefault: one, PeerDefault: one}
	concrete := partial.Build(rcmgr.DefaultLimits.Scale(l.Memory, l.Conns))
	loopback4, loopback6 := netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")
	per := rate.Limit{RPS: l.RatePerAddr, Burst: l.PerAddr}
	return rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(concrete), rcmgr.WithMetricsDisabled(),
		rcmgr.WithLimitPerSubnet([]rcmgr.ConnLimitPerSubnet{{PrefixLength: 32, ConnCount: l.PerAddr}},
			[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 56, ConnCount: l.PerAddr}, {PrefixLength: 48, ConnCount: 4 * l.PerAddr}}),
		rcmgr.WithNetworkPrefixLimit([]rcmgr.NetworkPrefixLimit{{Network: loopback4, ConnCount: math.MaxInt}},
			[]rcmgr.NetworkPrefixLimit{{Network: loopback6, ConnCount: math.MaxInt}}),
		rcmgr.WithConnRateLimiters(&rate.Limiter{
			NetworkPrefixLimits: []rate.PrefixLimit{{Prefix: loopback4}, {Prefix: loopback6}},
			SubnetRateLimiter: rate.SubnetLimiter{
				IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: per}},
				IPv6SubnetLimits: []rate.SubnetLimit{{PrefixLength: 56, Limit: per}, {PrefixLength: 48, Limit: rate.Limit{RPS: 4 * per.RPS, Burst: 4 * per.Burst}}},
				GracePeriod:      time.Minute,
			}}))
}
