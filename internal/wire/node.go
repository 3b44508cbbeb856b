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
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/multiformats/go-multistream"
	"github.com/prometheus/client_golang/prometheus"
	quicgo "github.com/quic-go/quic-go"

	"shoal/internal/member"
	"shoal/internal/wire/gate"
	"shoal/internal/wire/homing"
	"shoal/internal/wire/sockets"
)

// Node is a member's place on the wire. It is safe for concurrent use. It is the sum of its parts: each owns what it keeps, and a reader
// needs one of them at a time.
type Node struct {
	*conns   // connections to members: host, gate, who is there
	*papers  // certificate, document, clock
	*greeter // showing and checking certificates on a connection
	*joiner  // getting certificates, or giving them
	*calls   // requests and answers, streams, rides
	*reach   // how others get here: relays, hole punching
	*numbers // metrics

	*home // a peer's way to the network's servers

	cfg   Config
	built *builder
	crowd *gate.Crowd
	life  *life

	closing sync.Once
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

// New starts a node. It runs until Close. ctx bounds the start alone.
func New(ctx context.Context, cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	listen, err := listenAddrs(cfg.Listen)
	if err != nil {
		return nil, err
	}
	n, err := assemble(cfg)
	if err != nil {
		return nil, err
	}
	if err := n.start(listen); err != nil {
		n.Close()
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (c Config) withDefaults() Config {
	if c.Role == 0 {
		c.Role = member.Peer
	}
	c.Limits = c.Limits.or(DefaultLimits(c.Role))
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	if c.Gate == 0 {
		c.Gate = c.Patience
	}
	if c.homing == (homing.Times{}) {
		c.homing = homing.Default()
	}
	if c.Bar == nil {
		c.Bar = func(ma.Multiaddr) bool { return false }
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	return c
}

// assemble makes a node of its parts. Nothing runs yet.
func assemble(cfg Config) (*Node, error) {
	key, err := libp2pKey(cfg.Key)
	if err != nil {
		return nil, err
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("wire: key: %w", err)
	}
	announce, err := listenAddrs(cfg.Announce)
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, life: &life{}, papers: &papers{network: cfg.Network, self: id, verifier: member.NewVerifier(cfg.Network),
		keep: cfg.Keep, now: cfg.Clock, log: cfg.Log, kept: cfg.Kept}}
	if err := n.adoptKept(); err != nil {
		return nil, err
	}
	n.crowd = gate.NewCrowd(cfg.Limits.Strangers)
	sock := sockets.New(sockets.Config{Accepted: n.crowd.Accepted, Control: cfg.Socket, Wrap: cfg.Wrap, Count: cfg.Count, Dialer: cfg.Dialer, DialTimeout: cfg.Patience / 2})
	if n.numbers, err = newNumbers(cfg.Metrics, sock, func() (int, int) { return n.gate.Count() }); err != nil {
		return nil, err
	}
	n.built = &builder{cfg: &n.cfg, key: key, id: id, sockets: sock, traffic: n.traffic, server: n.isServer}
	n.reach = &reach{bar: cfg.Bar, role: cfg.Role, patience: cfg.Patience, forwarded: len(cfg.Announce) > 0, limits: cfg.Limits, numbers: n.numbers,
		life: n.life, log: cfg.Log, lost: make(chan struct{}, 1), ports: map[peer.ID]netip.AddrPort{}}
	n.greeter = &greeter{papers: n.papers, role: cfg.Role, patience: cfg.Patience, expel: cfg.Gate, lobby: lobby(cfg.Role), reach: n.reach,
		greeting: newCounts(cfg.Limits.Calls), numbers: n.numbers, life: n.life, log: cfg.Log, renew: make(chan struct{}, 1)}
	n.joiner = &joiner{greeter: n.greeter, renewing: &renewing{soon: n.greeter.renewSoon}}
	if n.conns, err = n.built.build(announce, n.gateConfig(), &n.reach.services); err != nil {
		return nil, err
	}
	n.papers.store = n.host.Peerstore()
	n.calls = &calls{conns: n.conns, role: cfg.Role, patience: cfg.Patience, running: newCounts(cfg.Limits.Calls), memory: newMemory(cfg.Limits), verifier: n.papers.verifier,
		numbers: n.numbers, life: n.life, log: cfg.Log, ridden: map[protocol.ID]ridden{}}
	n.reach.conns, n.reach.calls, n.greeter.conns = n.conns, n.calls, n.conns
	n.home = &home{papers: n.papers, conns: n.conns, carried: n.traffic, quiet: quiet, times: cfg.homing, sockets: sock, watched: map[*quicgo.Conn]bool{}, toWatch: make(chan peer.ID, 16), reach: n.reach, log: cfg.Log, lost: n.reach.lost, renewing: n.joiner.renewing}
	return n, nil
}

// lobby holds the protocols that a connection gets before it is a member's.
func lobby(r member.Role) *multistream.MultistreamMuxer[protocol.ID] {
	m := multistream.NewMultistreamMuxer[protocol.ID]()
	served := func(protocol.ID, io.ReadWriteCloser) error { return nil }
	m.AddHandler(ProtoMember, served)
	if r != member.Peer {
		m.AddHandler(ProtoSeen, served)
		m.AddHandler(ProtoStanding, served)
	} else { // a peer asks servers to dial it, and they come as strangers
		m.AddHandler(autonatv2.DialBackProtocol, served)
	}
	return m
}

func (n *Node) gateConfig() gate.Config {
	return gate.Config{
		Crowd:   n.crowd,
		Timeout: n.cfg.Gate,
		Now:     n.Now,
		Greet: func(c network.Conn, ended func()) {
			if !n.life.spawn(func(ctx context.Context) { defer ended(); n.greet(ctx, c) }) {
				ended()
			}
		},
		Answer:   func(s network.Stream) { n.answer(s) },
		Ready:    n.valid,
		MayDial:  func(p peer.ID) bool { return !n.home.seeks(p) },
		Rejected: n.rejected,
		Left: func(m Member) {
			if m.Role != member.Peer {
				n.leftServer(m.Peer)
				poke(n.reach.lost)
			}
		},
		NotMember: errNotMember,
		Gone:      errGone,
		NotJoined: &Status{Code: NotMember, Text: "wire: not a member of the network yet; join it first"},
		NotDialed: errAway,
	}
}

// start serves what a node serves, and opens its ports.
func (n *Node) start(listen []ma.Multiaddr) error {
	if d, known := n.papers.verifier.Document(); known {
		n.rememberServers(member.Document{}, d)
	}
	n.host.SetStreamHandler(ProtoMember, n.serveMember)
	if n.cfg.Role != member.Peer {
		n.host.SetStreamHandler(ProtoStanding, n.serveStanding)
	}
	n.serveRides()
	if n.cfg.Role == member.Peer {
		n.HandleRidden(ProtoMeet, 0, n.cfg.Patience, n.meet)
	}
	n.host.Start()
	if err := n.reach.start(); err != nil {
		return fmt.Errorf("wire: %w", err)
	}
	p := ports{gate: n.gate, quic: n.cfg.QUIC, log: n.cfg.Log}
	for _, a := range listen {
		if err := p.listen(a); err != nil {
			return err
		}
	}
	return nil
}

// Close ends all connections and waits for every handler. Closing again waits too, and does nothing else.
func (n *Node) Close() error {
	var err error
	n.closing.Do(func() {
		n.life.end()
		n.reach.stop()
		err = errors.Join(n.host.Close(), n.built.close())
	})
	n.life.wait()
	return err
}

// Run keeps the node a member until ctx ends: it renews the certificate at two thirds of its life, or soon when others call it
// outdated, and a peer keeps a connection to its home, over which what needs it is reached behind whatever router.
func (n *Node) Run(ctx context.Context) error {
	ctx, leave, alive := n.life.enter(ctx)
	defer leave()
	if !alive {
		return nil
	}
	var home sync.WaitGroup
	defer home.Wait()
	if n.cfg.Role == member.Peer {
		home.Go(func() { n.home.keep(ctx) })
	}
	n.keepRenewed(ctx)
	return nil
}

// Woken makes connections and membership anew after a time in which the computer slept: the other ends of its connections may have gone,
// and timers stood still. It returns when all are closed.
func (n *Node) Woken() {
	n.Redial()
	n.renewSoon()
}

// Redial closes all connections. Those that are needed are made anew, on the ways that are open now.
func (n *Node) Redial() {
	var wg sync.WaitGroup
	for _, c := range n.gate.Conns() {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
}

// JoinString is what a volunteer is given to join through this manager: the addresses that are most likely to be reachable.
func (n *Node) JoinString(invite string) member.JoinString {
	j := member.JoinString{Network: n.network, Invite: invite}
	pick := func(want func(ma.Multiaddr) bool) {
		for _, a := range n.host.Addrs() {
			full := n.withID(a)
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
