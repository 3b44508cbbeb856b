package wire

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/core/transport"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	blankhost "github.com/libp2p/go-libp2p/p2p/host/blank"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	madns "github.com/multiformats/go-multiaddr-dns"
	quicgo "github.com/quic-go/quic-go"

	"shoal/internal/member"
	"shoal/internal/wire/gate"
	"shoal/internal/wire/sockets"
)

const (
	connGrace = 8 * time.Second // during which a new connection is never closed: an exchange of the overlay is over by then
	maxWindow = 4 << 20         // bytes in flight on a stream

	// Keeping connections alive: through routers that forget a silent one after some minutes, with few packets.
	keepAlive = time.Minute
	rttEvery  = time.Hour // of the multiplexer, which sizes its windows by it

	quicLater = 3 * time.Second // for which a server's QUIC addresses wait while TCP is tried
)

// builder puts a host together from its parts. The library's own constructor would link transports that are never used (WebRTC,
// WebTransport) and leave no place for the gate. It closes what it has opened.
type builder struct {
	cfg     *Config
	key     crypto.PrivKey
	id      peer.ID
	sockets *sockets.Sockets
	traffic *traffic
	server  func(ma.Multiaddr) bool // whether an address is a server's
	quic    []io.Closer             // sockets
	undo    []func() error
}

// build makes the host, with the gate before it and reach's services in it.
func (b *builder) build(announce []ma.Multiaddr, gc gate.Config, r *services) (c *conns, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("wire: %w", errors.Join(err, b.undoAll()))
		}
	}()
	resources, err := b.cfg.Limits.manager()
	if err != nil {
		return nil, err
	}
	b.undo = append(b.undo, resources.Close)
	kept, err := connmgr.NewConnManager(b.cfg.Limits.LowConns, b.cfg.Limits.Held, connmgr.WithGracePeriod(connGrace), connmgr.WithSilencePeriod(connGrace/2))
	if err != nil {
		return nil, err
	}
	b.undo = append(b.undo, kept.Close)
	names, err := madns.NewResolver(madns.WithDefaultResolver(cmp.Or(b.cfg.Names, net.DefaultResolver)))
	if err != nil {
		return nil, err
	}
	bus := eventbus.NewBus()
	var g *gate.Gate
	mayDial := func(p peer.ID) bool { return g.MayDial(p) }
	sw, err := b.swarm(b.key, bus, resources, swarm.WithMetrics(b.traffic), swarm.WithDialRanker(b.rank), swarm.WithConnectionGater(barred{b.cfg.Bar, mayDial}),
		swarm.WithMultiaddrResolver(swarm.ResolverFromMaDNS{Resolver: names}))
	if err != nil {
		return nil, err
	}
	if r.upgrader, r.udp, err = b.transports(sw, b.key, resources); err != nil {
		return nil, err
	}
	g = gate.New(sw, gc)
	opts := &basichost.HostOpts{
		EventBus:           bus,
		ConnManager:        kept,
		UserAgent:          "shoal/" + cmp.Or(b.cfg.Version, "dev"),
		ProtocolVersion:    "shoal/1",
		NegotiationTimeout: b.cfg.Patience,
		AddrsFactory: func(own []ma.Multiaddr) []ma.Multiaddr {
			return append(own[:len(own):len(own)], announce...)
		},
	}
	dialer, err := b.stranger(resources)
	if err != nil {
		return nil, err
	}
	if err := r.prepare(g, dialer, b.cfg.Role, b.cfg.autonat, opts); err != nil {
		return nil, err
	}
	h, err := basichost.NewHost(g, opts)
	if err != nil {
		return nil, err
	}
	return &conns{id: b.id, host: h, gate: g}, nil
}

// close gives back what the host does not close itself.
func (b *builder) close() error {
	var errs []error
	for _, c := range b.quic {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, b.undoAll())...)
}

// undoAll gives back what building took, last first.
func (b *builder) undoAll() error {
	var errs []error
	for _, f := range slices.Backward(b.undo) {
		errs = append(errs, f())
	}
	b.undo = nil
	return errors.Join(errs...)
}

// swarm makes one with an empty peerstore.
func (b *builder) swarm(key crypto.PrivKey, bus event.Bus, resources network.ResourceManager, opts ...swarm.Option) (*swarm.Swarm, error) {
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	store, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, err
	}
	b.undo = append(b.undo, store.Close)
	if err := store.AddPrivKey(id, key); err != nil {
		return nil, err
	}
	if err := store.AddPubKey(id, key.GetPublic()); err != nil {
		return nil, err
	}
	sw, err := swarm.NewSwarm(id, store, bus, append(opts, swarm.WithResourceManager(resources), swarm.WithDialTimeout(b.cfg.Patience), swarm.WithDialTimeoutLocal(b.cfg.Patience/2),
		swarm.WithUDPBlackHoleSuccessCounter(nil), swarm.WithIPv6BlackHoleSuccessCounter(nil))...)
	if err != nil {
		return nil, err
	}
	b.undo = append(b.undo, sw.Close)
	return sw, nil
}

// stranger is a host that dials as a non-member and from other ports, to find out whether strangers can connect.
// Peers never dial for others, so their stranger can do nothing.
func (b *builder) stranger(resources network.ResourceManager) (*blankhost.BlankHost, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, err
	}
	bus := eventbus.NewBus()
	sw, err := b.swarm(key, bus, resources)
	if err != nil {
		return nil, err
	}
	if b.cfg.Role != member.Peer {
		if _, _, err := b.transports(sw, key, resources); err != nil {
			return nil, err
		}
	}
	h := blankhost.NewBlankHost(sw, blankhost.WithEventBus(bus))
	if h == nil {
		return nil, errors.New("no host to dial back from")
	}
	return h, nil
}

// transports gives a swarm TCP and, if asked, QUIC, whose sockets close with the builder.
func (b *builder) transports(sw *swarm.Swarm, key crypto.PrivKey, resources network.ResourceManager) (transport.Upgrader, transport.Transport, error) {
	mux := *yamux.DefaultTransport
	mux.MaxStreamWindowSize = maxWindow
	mux.ConnectionWriteTimeout, mux.KeepAliveInterval, mux.MeasureRTTInterval = b.cfg.Patience, keepAlive, rttEvery
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: &mux}}
	secure, err := noise.New(noise.ID, key, muxers)
	if err != nil {
		return nil, nil, err
	}
	up, err := upgrader.New([]sec.SecureTransport{secure}, muxers, nil, resources, nil, upgrader.WithAcceptTimeout(b.cfg.Patience/2))
	if err != nil {
		return nil, nil, err
	}
	// With port reuse two programs could listen on one port and each get half of the connections.
	plain, err := tcp.NewTCPTransport(up, resources, nil, tcp.DisableReuseport())
	if err != nil {
		return nil, nil, err
	}
	if err := sw.AddTransport(b.sockets.TCP(plain, up, resources)); err != nil {
		return nil, nil, err
	}
	if !b.cfg.QUIC {
		return up, nil, nil
	}
	cm, err := b.quicSockets(key, resources)
	if err != nil {
		return nil, nil, err
	}
	b.quic = append(b.quic, cm)
	udp, err := quic.NewTransport(key, cm, nil, nil, resources)
	if err != nil {
		return nil, nil, err
	}
	return up, udp, sw.AddTransport(udp)
}

func (b *builder) quicSockets(key crypto.PrivKey, resources network.ResourceManager) (*quicreuse.ConnManager, error) {
	seed, err := key.Raw()
	if err != nil {
		return nil, err
	}
	var reset quicgo.StatelessResetKey
	var token quicgo.TokenGeneratorKey
	for purpose, out := range map[string][]byte{"shoal quic reset": reset[:], "shoal quic token": token[:]} {
		secret, err := hkdf.Key(sha256.New, seed, nil, purpose, len(out))
		if err != nil {
			return nil, err
		}
		copy(out, secret)
	}
	return quicreuse.NewConnManager(reset, token, quicreuse.VerifySourceAddress(resources.VerifySourceAddress),
		quicreuse.OverrideListenUDP(b.sockets.ListenUDP),
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
func (b *builder) rank(addrs []ma.Multiaddr) []network.AddrDelay {
	if !slices.ContainsFunc(addrs, b.server) {
		return swarm.DefaultDialRanker(addrs)
	}
	out := swarm.DefaultDialRanker(slices.DeleteFunc(slices.Clone(addrs), isQUIC))
	for _, a := range addrs {
		if isQUIC(a) {
			out = append(out, network.AddrDelay{Addr: a, Delay: quicLater})
		}
	}
	return out
}

func isQUIC(a ma.Multiaddr) bool {
	_, err := a.ValueForProtocol(ma.P_QUIC_V1)
	return err == nil
}
