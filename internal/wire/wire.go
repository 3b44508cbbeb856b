// Package wire connects the members of a network: a libp2p host whose connections belong to members only, requests and answers with
// limits and deadlines on it, joining and renewing. Archive, overlay and agent share it.
//
// The first stream of a connection is /shoal/member/1, on which both sides show their certificates. Until that has gone well no other
// protocol is served or spoken, kad-dht and identify included, since the gate sits below the host, where streams come in. A connection
// that has not become a member's closes after ten seconds. A certificate that ends or is outdated ends the membership of connections
// that live on it.
//
// It is not for deciding who is a member (package member) nor for what the protocols say.
//
// Invariants: a handler runs only for a member; no frame, queue or table without a bound; every stream has a deadline; nothing is
// asked of hosts outside of the network.
package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"shoal/internal/member"
	"shoal/internal/wire/homing"
)

// Protocol is the version of the protocols between members that this program speaks; a Document names the lowest that still is.
const Protocol = 1

// ProtoMember is the protocol of the gate.
const ProtoMember protocol.ID = "/shoal/member/1"

// DefaultPort is where members listen unless told otherwise, TCP and UDP.
const DefaultPort = 7785

// Limits that do not depend on the role.
const (
	maxHello     = 4 << 10                    // bytes of a Hello: a certificate, an account, an invite
	maxWelcome   = member.MaxDocument + 4<<10 // bytes of a Welcome: two certificates and a document
	maxText      = 512                        // bytes of an error's text
	maxReason    = 32                         // bytes of an error's word
	callTimeout  = 30 * time.Second           // of a call whose context has no deadline
	maxJoinAddrs = 4                          // addresses in a join string
)

// Config is what a node is made of. Zero values are usable where a field says so.
type Config struct {
	Key     [32]byte         // Ed25519 seed of the identity; member.LoadOrCreateNode
	Network member.NetworkID // whose members are talked to
	Role    member.Role      // chooses the default limits; Peer if zero

	Kept Kept             // what an earlier run was given; zero: not a member yet
	Keep func(Kept) error // stores what is worth keeping over a restart, called on every change; nil: nothing is kept

	Listen   []string          // multiaddrs: "/ip4/0.0.0.0/tcp/7785"; empty: only dials out
	QUIC     bool              // listen and dial QUIC too, on the UDP ports of the same numbers
	Announce []string          // multiaddrs told to others beside those listened on, for port forwarding
	Dialer   tcp.DialerForAddr // the only TCP dialler if set; for injected latency. nil: the system's

	Socket func(network, address string, c syscall.RawConn) error // sets options of each socket before it is used, QUIC's too; nil: none
	Wrap   func(net.Conn) net.Conn                                // accounts for and paces each TCP connection, dialled or accepted; nil: nothing
	Count  func(received, sent int)                               // is told the bytes of QUIC's packets, which are not paced; nil: nothing
	Names  *net.Resolver                                          // for addresses with names; nil: the system's
	Bar    func(ma.Multiaddr) bool                                // whether an address must not be connected to now, in either direction; nil: all may

	Limits   Limits                // zero fields: of the role
	Gate     time.Duration         // after which a connection that is not a member's closes; 0: as Patience
	Patience time.Duration         // for a dial, a greeting, a write, a ride; more where the machine is slow; 0: 10 s
	Version  string                // of the program, for the user agent; "": dev
	Clock    func() time.Time      // nil: time.Now
	Log      *slog.Logger          // nil: silent
	Metrics  prometheus.Registerer // of the node's metrics, which no two nodes share; nil: a registry of its own

	autonat []autonatv2.AutoNATOption // for tests
	homing  homing.Times              // of the way home; zero: homing.Default; shorter in tests
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	if c.Key == ([32]byte{}) {
		return errors.New("wire: no key")
	}
	if c.Network == (member.NetworkID{}) {
		return errors.New("wire: no network")
	}
	l := c.Limits
	if l.Conns < 0 || l.Held < 0 || l.LowConns < 0 || l.Strangers < 0 || l.PerAddr < 0 || l.RatePerAddr < 0 || l.Streams < 0 || l.Memory < 0 || l.MemoryPerPrefix < 0 || l.MemoryPerAccount < 0 || l.MemoryPerMember < 0 || l.Calls < 0 || c.Gate < 0 || c.Patience < 0 {
		return fmt.Errorf("wire: negative limit in %+v", l)
	}
	if d := l.or(DefaultLimits(c.Role)); d.LowConns > d.Held || d.Held > d.Conns {
		return fmt.Errorf("wire: %d connections are to be kept, of %d held, of at most %d", d.LowConns, d.Held, d.Conns)
	}
	return nil
}
