package wire

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/transport"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/multiformats/go-multistream"
	"github.com/prometheus/client_golang/prometheus"

	"shoal/internal/member"
)

// Node is a member's place on the wire. It is safe for concurrent use.
type Node struct {
	cfg      Config
	network  member.NetworkID
	id       peer.ID
	host     *basichost.BasicHost
	gate     *gate
	lobby    *multistream.MultistreamMuxer[protocol.ID] // what a connection gets before it is a member's
	verifier *member.Verifier
	issuer   atomic.Pointer[member.Issuer]
	log      *slog.Logger
	offset   atomic.Int64  // nanoseconds that the manager's clock is ahead of ours
	renew    chan struct{} // asks Run to renew now
	lost     chan struct{} // a server's connection is gone
	quic     []io.Closer   // sockets
	undo     []func() error
	upgrader transport.Upgrader
	nat      natParts
	udp      transport.Transport             // QUIC, through which holes are punched; nil: none
	servers  atomic.Pointer[map[string]bool] // their addresses, as bytes
	numbers

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex // guards all below
	kept    Kept
	reach   reach
	ridden  map[protocol.ID]ridden
	calls   map[callKey]int
	running int
	closing bool
	idle    *sync.Cond // no handler runs
}

// PeerID is the identity that belongs to a key.
func PeerID(key [32]byte) (peer.ID, error) {
	k, err := libp2pKey(key)
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(k)
}

func libp2pKey(seed [32]byte) (crypto.PrivKey, error) {
	k, err := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(seed[:]))
	if err != nil {
		return nil, fmt.Errorf("wire: key: %w", err)
	}
	return k, nil
}

// New starts a node. It runs until Close.
func New(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Role == 0 {
		cfg.Role = member.Peer
	}
	cfg.Limits = cfg.Limits.or(DefaultLimits(cfg.Role))
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Second
	}
	if cfg.Gate == 0 {
		cfg.Gate = cfg.Patience
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Metrics == nil {
		cfg.Metrics = prometheus.NewRegistry()
	}
	n := &Node{cfg: cfg, network: cfg.Network, log: cfg.Log, verifier: member.NewVerifier(cfg.Network), kept: cfg.Kept,
		lobby: multistream.NewMultistreamMuxer[protocol.ID](), renew: make(chan struct{}, 1), lost: make(chan struct{}, 1), calls: map[callKey]int{},
		ridden: map[protocol.ID]ridden{}, reach: reach{ports: map[peer.ID]netip.AddrPort{}}}
	n.idle = sync.NewCond(&n.mu)
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	n.lobby.AddHandler(ProtoMember, func(protocol.ID, io.ReadWriteCloser) error { return nil })
	if cfg.Role != member.Peer {
		n.lobby.AddHandler(ProtoSeen, func(protocol.ID, io.ReadWriteCloser) error { return nil })
	} else { // who asks servers to dial him is dialled by strangers
		n.lobby.AddHandler(autonatv2.DialBackProtocol, func(protocol.ID, io.ReadWriteCloser) error { return nil })
	}
	if err := n.start(ctx); err != nil {
		n.cancel()
		return nil, err
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) (err error) {
	if err := n.adoptKept(); err != nil {
		return err
	}
	if n.numbers, err = newNumbers(n.cfg.Metrics, n); err != nil {
		return err
	}
	key, err := libp2pKey(n.cfg.Key)
	if err != nil {
		return err
	}
	if n.id, err = peer.IDFromPrivateKey(key); err != nil {
		return fmt.Errorf("wire: key: %w", err)
	}
	listen, err := listenAddrs(n.cfg.Listen)
	if err != nil {
		return err
	}
	announce, err := listenAddrs(n.cfg.Announce)
	if err != nil {
		return err
	}
	if err := n.build(key, announce); err != nil {
		return err
	}
	if d, known := n.verifier.Document(); known {
		n.rememberServers(member.Document{}, d)
	}
	n.host.SetStreamHandler(ProtoMember, n.serveMember)
	n.serveRides()
	if n.cfg.Role == member.Peer {
		n.HandleRidden(ProtoMeet, 0, n.cfg.Patience, n.meet)
	}
	n.host.Start()
	if err := n.startReach(); err != nil {
		n.Close()
		return fmt.Errorf("wire: %w", err)
	}
	for _, a := range listen {
		if err := n.listen(a); err != nil {
			n.Close()
			return err
		}
	}
	return ctx.Err()
}

func listenAddrs(in []string) ([]ma.Multiaddr, error) {
	var out []ma.Multiaddr
	for _, s := range in {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			return nil, fmt.Errorf("wire: address %q: %w; it looks like /ip4/0.0.0.0/tcp/%d", s, err, DefaultPort)
		}
		if _, err := a.ValueForProtocol(ma.P_TCP); err != nil {
			return nil, fmt.Errorf("wire: address %q: only TCP addresses are named, QUIC uses the same port; it looks like /ip4/0.0.0.0/tcp/%d", s, DefaultPort)
		}
		out = append(out, a)
	}
	return out, nil
}

// listen opens the TCP port and, if asked, the UDP port of the same number. Where any port will do, it is one that is free for both.
func (n *Node) listen(a ma.Multiaddr) error {
	port, err := a.ValueForProtocol(ma.P_TCP)
	for tries := 1; ; tries++ {
		before := n.gate.ListenAddresses()
		lerr := n.listenOnce(a)
		if lerr == nil || err != nil || port != "0" || tries == anyPortTries || !errors.Is(lerr, syscall.EADDRINUSE) {
			return lerr
		}
		for _, l := range n.gate.ListenAddresses() {
			if !ma.Contains(before, l) {
				n.gate.ListenClose(l)
			}
		}
	}
}

// anyPortTries bounds the search for a port that is free for TCP and UDP.
const anyPortTries = 8

func (n *Node) listenOnce(a ma.Multiaddr) error {
	before := n.gate.ListenAddresses()
	if err := n.gate.Listen(a); err != nil {
		if _, v6 := a.ValueForProtocol(ma.P_IP6); v6 == nil && slices.ContainsFunc(before, manet.IsThinWaist) && !errors.Is(err, syscall.EADDRINUSE) {
			n.log.Warn("no IPv6 here", "listen", a, "err", err)
			return nil
		}
		return listenError(a, err)
	}
	if !n.cfg.QUIC {
		return nil
	}
	for _, l := range n.gate.ListenAddresses() {
		port, err := l.ValueForProtocol(ma.P_TCP)
		if err != nil || ma.Contains(before, l) {
			continue
		}
		ip, _ := ma.SplitFirst(l)
		u, err := ma.NewMultiaddr(fmt.Sprintf("%s/udp/%s/quic-v1", ip, port))
		if err != nil {
			return fmt.Errorf("wire: listen: %w", err)
		}
		if err := n.gate.Listen(u); err != nil {
			return listenError(u, err)
		}
	}
	return nil
}

func listenError(a ma.Multiaddr, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), "address already in use") || strings.Contains(err.Error(), "Only one usage of each socket address") {
		return fmt.Errorf("wire: listen on %s: the port is taken, perhaps by another Shoal on this machine; stop that or choose another port: %w", a, syscall.EADDRINUSE)
	}
	return fmt.Errorf("wire: listen on %s: %w", a, err)
}

// Close ends all connections and waits for every handler.
func (n *Node) Close() error {
	n.mu.Lock()
	first := !n.closing
	n.closing = true
	n.mu.Unlock()
	n.cancel()
	if first && n.host != nil {
		n.gate.stop()
		n.stopReach()
		n.host.Close()
		for _, c := range n.quic {
			c.Close()
		}
		n.undoAll()
		n.gate.wg.Wait()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.running > 0 {
		n.idle.Wait()
	}
	return nil
}

// enter counts a handler in, unless the node is closing.
func (n *Node) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing {
		return false
	}
	n.running++
	return true
}

func (n *Node) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running--; n.running == 0 {
		n.idle.Broadcast()
	}
}

// Host is the libp2p host, for kad-dht and the like. Whatever is registered on it or dialled with it passes the gate.
func (n *Node) Host() host.Host { return n.host }

// ID is the node's identity.
func (n *Node) ID() peer.ID { return n.id }

// Network is the network that it belongs to.
func (n *Node) Network() member.NetworkID { return n.network }

// Verifier checks tasks, certificates and documents against the newest document that the node has learnt.
func (n *Node) Verifier() *member.Verifier { return n.verifier }

// Document is the newest network document, and whether there is one.
func (n *Node) Document() (member.Document, bool) { return n.verifier.Document() }

// Addrs are the addresses at which others may reach the node, each with its identity.
func (n *Node) Addrs() []string {
	var out []string
	for _, a := range n.host.Addrs() {
		out = append(out, a.String()+"/p2p/"+n.id.String())
	}
	return out
}

// JoinString is what a volunteer is given to join through this manager: the addresses that are most likely to be reachable.
func (n *Node) JoinString(invite string) member.JoinString {
	j := member.JoinString{Network: n.network, Invite: invite}
	pick := func(want func(ma.Multiaddr) bool) {
		for _, a := range n.host.Addrs() {
			full := a.String() + "/p2p/" + n.id.String()
			if _, err := a.ValueForProtocol(ma.P_TCP); err == nil && want(a) && len(j.Addrs) < maxJoinAddrs && !slices.Contains(j.Addrs, full) {
				j.Addrs = append(j.Addrs, full)
			}
		}
	}
	pick(func(a ma.Multiaddr) bool { return slices.Contains(n.cfg.Announce, a.String()) })
	pick(manet.IsPublicAddr)
	pick(func(a ma.Multiaddr) bool { return !manet.IsIPLoopback(a) })
	pick(manet.IsIPLoopback)
	return j
}

// Metrics shows the node's metrics, if they are in a registry of its own; else nil.
func (n *Node) Metrics() prometheus.Gatherer {
	g, _ := n.cfg.Metrics.(prometheus.Gatherer)
	return g
}

// Member is who a connected peer is; false: not connected, or no member.
func (n *Node) Member(p peer.ID) (Member, bool) {
	for _, c := range n.gate.ConnsToPeer(p) {
		if m := n.gate.memberOf(c); m != nil {
			return *m, true
		}
	}
	return Member{}, false
}

// Direct reports whether there is a connection to a peer that no relay carries, over which round trips can be timed.
func (n *Node) Direct(p peer.ID) bool {
	for _, c := range n.gate.ConnsToPeer(p) {
		if !c.Stat().Limited && n.gate.memberOf(c) != nil {
			return true
		}
	}
	return false
}

// relayed reports whether a relay carries all that there is to a peer. No request goes that way, and the host would wait for another one.
func (n *Node) relayed(p peer.ID) bool {
	conns := n.gate.ConnsToPeer(p)
	return len(conns) > 0 && !slices.ContainsFunc(conns, func(c network.Conn) bool { return !c.Stat().Limited })
}

// Connect connects to a peer, not through a relay, and waits until both are members to each other. Addresses may end in its identity or not.
func (n *Node) Connect(ctx context.Context, p peer.ID, addrs ...string) error {
	ctx = network.WithForceDirectDial(ctx, "requests")
	info := peer.AddrInfo{ID: p}
	for _, s := range addrs {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			return fmt.Errorf("wire: address %q: %w", s, err)
		}
		if t, id := peer.SplitAddr(a); t != nil && (id == "" || id == p) {
			info.Addrs = append(info.Addrs, t)
		}
	}
	if err := n.host.Connect(ctx, info); err != nil {
		return n.dialError(p, err)
	}
	for _, c := range n.gate.ConnsToPeer(p) {
		if !c.Stat().Limited && n.gate.await(ctx, c) == nil {
			return nil
		}
	}
	return fmt.Errorf("wire: connect to %s: %w", p, errNotMember)
}

func (n *Node) dialError(p peer.ID, err error) error {
	var s *Status
	if errors.As(err, &s) {
		return fmt.Errorf("wire: connect to %s: %w", p, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, p, err)
}

// Now is the network's time: the own clock, corrected by what the managers' answers told of theirs. Deadlines that a manager sets are
// compared with it.
func (n *Node) Now() time.Time { return n.clock().Add(time.Duration(n.offset.Load())) }

func (n *Node) clock() time.Time { return n.cfg.Clock() }

// HandleStream serves a protocol with streams for members. The handler must set its deadlines and close or reset the stream; ctx ends
// with the node.
func (n *Node) HandleStream(p protocol.ID, handle func(ctx context.Context, from Member, s network.Stream)) {
	n.host.SetStreamHandler(p, func(s network.Stream) {
		m := n.gate.memberOf(s.Conn())
		if m == nil || !n.enter() {
			refuseStream(s)
			return
		}
		defer n.leave()
		handle(n.ctx, *m, s)
	})
}
