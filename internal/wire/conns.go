package wire

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/member"
	"shoal/internal/wire/gate"
)

// Member is who is at the other end.
type Member = gate.Member

// conns are a node's connections to members.
type conns struct {
	id   peer.ID
	host *basichost.BasicHost
	gate *gate.Gate
}

// Host is the libp2p host, for kad-dht and the like. Whatever is registered on it or dialled with it passes the gate.
func (c *conns) Host() host.Host { return c.host }

// ID is the node's identity.
func (c *conns) ID() peer.ID { return c.id }

// Addrs are the addresses at which others may reach the node, each with its identity.
func (c *conns) Addrs() []string {
	var out []string
	for _, a := range c.host.Addrs() {
		out = append(out, c.withID(a))
	}
	return out
}

func (c *conns) withID(a ma.Multiaddr) string { return a.String() + "/p2p/" + c.id.String() }

// Member is who a connected peer is; false: not connected, or no member. Of several connections it is one that tells where the peer is, if one does.
func (c *conns) Member(p peer.ID) (who Member, ok bool) {
	for _, conn := range c.gate.ConnsToPeer(p) {
		if m := c.gate.MemberOf(conn); m != nil && (!ok || who.Prefix == "") {
			who, ok = *m, true
		}
	}
	return who, ok
}

// Connected is a member and where it is.
type Connected struct {
	Member
	Addr netip.Addr // invalid: behind a relay, or not from an address
}

// Members are the connected members for which want holds. One with several connections comes several times.
func (c *conns) Members(want func(Member) bool) []Connected {
	var out []Connected
	for conn := range c.gate.Members() {
		m := c.gate.MemberOf(conn)
		if m == nil || !want(*m) {
			continue
		}
		of := Connected{Member: *m}
		if !conn.Stat().Limited {
			of.Addr = remoteAddr(conn).Unmap()
		}
		out = append(out, of)
	}
	return out
}

// known returns the member that a connection belongs to, or the zero Member.
func (c *conns) known(conn network.Conn) Member {
	if m := c.gate.MemberOf(conn); m != nil {
		return *m
	}
	return Member{}
}

// Direct reports whether there is a connection to a peer that no relay carries, over which round trips can be timed.
func (c *conns) Direct(p peer.ID) bool {
	for _, conn := range c.gate.ConnsToPeer(p) {
		if !conn.Stat().Limited && c.gate.MemberOf(conn) != nil {
			return true
		}
	}
	return false
}

// relayed reports whether a relay carries all that there is to a peer. No request goes that way, and the host would wait for another one.
func (c *conns) relayed(p peer.ID) bool {
	all := c.gate.ConnsToPeer(p)
	return len(all) > 0 && !slices.ContainsFunc(all, func(conn network.Conn) bool { return !conn.Stat().Limited })
}

// Connect connects to a peer, not through a relay, and waits until both are members to each other. Addresses may end in its identity or not.
func (c *conns) Connect(ctx context.Context, p peer.ID, addrs ...string) error {
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
	if err := c.host.Connect(ctx, info); err != nil {
		return dialError(p, err)
	}
	err := errGone
	for _, conn := range c.gate.ConnsToPeer(p) {
		if conn.Stat().Limited {
			continue
		}
		if err = c.gate.Await(ctx, conn); err == nil {
			return nil
		}
	}
	return fmt.Errorf("wire: connect to %s: %w", p, err)
}

func dialError(p peer.ID, err error) error {
	var s *Status
	if errors.As(err, &s) {
		return fmt.Errorf("wire: connect to %s: %w", p, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, p, err)
}

// admit makes a connection a member's. Servers are the last whose connections are given up.
func (c *conns) admit(conn network.Conn, m Member, sealed []byte) error {
	if m.Role != member.Peer {
		c.host.ConnManager().TagPeer(m.Peer, "server", 100)
	}
	return c.gate.Admit(conn, m, sealed)
}
