package wire

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	ma "github.com/multiformats/go-multiaddr"
	"google.golang.org/protobuf/proto"

	"shoal/internal/member"
	"shoal/internal/wire/wirepb"
)

const rider protocol.ID = "/shoal/test/rider/1"

// mute is a member that listens nowhere, as behind a router.
func (w *testNet) mute(cfg Config) *Node {
	cfg.Listen = []string{}
	return w.member(cfg)
}

func TestRide(t *testing.T) {
	w := newNet(t, openPolicy)
	a, b := w.member(Config{}), w.mute(Config{})
	b.HandleRidden(rider, 1000, 5*time.Second, func(_ context.Context, from Member, req []byte) ([]byte, error) {
		switch string(req) {
		case "busy":
			return nil, &Status{Code: Busy, Reason: "full", Text: "come back later"}
		case "broken":
			return nil, errors.New("secret")
		}
		return append([]byte(from.Peer.String()+" "+from.Label+" "+from.Role.String()+" "), req...), nil
	})
	b.Handle(echo, 100, time.Second, func(context.Context, Member, []byte) ([]byte, error) { return nil, nil })
	resp, err := a.Ride(t.Context(), w.manager.ID(), b.ID(), rider, []byte("hello"), 1000)
	if want := a.ID().String() + " ada peer hello"; err != nil || string(resp) != want {
		t.Fatalf("%q, %v; want %q", resp, err, want)
	}
	if b.Reach().Rides != 1 {
		t.Error("the ride is not counted")
	}
	var s *Status
	if _, err := a.Ride(t.Context(), w.manager.ID(), b.ID(), rider, []byte("busy"), 100); !errors.As(err, &s) || s.Code != Busy || s.Reason != "full" {
		t.Errorf("its refusal arrives as %v", err)
	}
	if _, err := a.Ride(t.Context(), w.manager.ID(), b.ID(), rider, []byte("broken"), 100); !errors.Is(err, Internal) || strings.Contains(err.Error(), "secret") {
		t.Errorf("its failure arrives as %v", err)
	}
	if _, err := a.Ride(t.Context(), w.manager.ID(), b.ID(), rider, make([]byte, 1001), 100); !errors.Is(err, TooLarge) {
		t.Errorf("too much for the protocol: %v", err)
	}
	if _, err := a.Ride(t.Context(), w.manager.ID(), b.ID(), rider, make([]byte, maxRide), 100); !errors.Is(err, TooLarge) {
		t.Errorf("too much for any ride: %v", err)
	}
	if _, err := a.Ride(t.Context(), w.manager.ID(), b.ID(), echo, nil, 100); !errors.Is(err, NotFound) {
		t.Errorf("a protocol that does not ride: %v", err)
	}
	b.Close()
	eventually(t, "b is gone", func() bool { return !w.manager.Direct(b.ID()) })
	if _, err := a.Ride(t.Context(), w.manager.ID(), b.ID(), rider, nil, 100); !errors.Is(err, NotFound) {
		t.Errorf("to somebody who is not there: %v", err)
	}
}

// farConn is a connection from an address.
type farConn struct {
	network.Conn
	from    string
	relayed bool
}

func (c farConn) RemoteMultiaddr() ma.Multiaddr { return ma.StringCast(c.from) }
func (c farConn) Stat() network.ConnStats {
	return network.ConnStats{Stats: network.Stats{Limited: c.relayed}}
}

// TestNetworkOfAConnection names the network that a member is connected from, where that is a public address of its own.
func TestNetworkOfAConnection(t *testing.T) {
	for _, c := range []struct {
		conn farConn
		want string
	}{
		{farConn{from: "/ip4/203.0.113.7/tcp/4001"}, "203.0.113.0/24"},
		{farConn{from: "/ip4/203.0.113.200/udp/4001/quic-v1"}, "203.0.113.0/24"},
		{farConn{from: "/ip6/2001:db8:1:2::3/tcp/4001"}, "2001:db8:1::/48"},
		{farConn{from: "/ip6/::ffff:203.0.113.7/tcp/4001"}, "203.0.113.0/24"},
		{farConn{from: "/ip4/127.0.0.1/tcp/4001"}, ""},
		{farConn{from: "/ip4/192.168.1.7/tcp/4001"}, ""},
		{farConn{from: "/ip6/fe80::1/tcp/4001"}, ""},
		{farConn{from: "/ip4/203.0.113.7/tcp/4001/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf/p2p-circuit", relayed: true}, ""},
	} {
		if got := publicPrefix(c.conn); got != c.want {
			t.Errorf("%s: %q, want %q", c.conn.from, got, c.want)
		}
	}
}

// TestRidesTellTheNetwork has a server tell from which network it has a request that it passes on. What names none tells nothing.
func TestRidesTellTheNetwork(t *testing.T) {
	w := newNet(t, openPolicy)
	a, b := w.member(Config{}), w.mute(Config{})
	b.HandleRidden(rider, 1000, 5*time.Second, func(_ context.Context, from Member, _ []byte) ([]byte, error) {
		return []byte("from " + from.Prefix), nil
	})
	ride, err := proto.Marshal(&wirepb.Ride{Peer: b.ID().String(), Protocol: string(rider), Prefix: "198.51.100.0/24"}) // its asker's word counts for nothing
	if err != nil {
		t.Fatal(err)
	}
	for seen, want := range map[string]string{"203.0.113.0/24": "203.0.113.0/24", "2001:db8:1::/48": "2001:db8:1::/48", "": "", "203.0.113.7/24": "", "203.0.113.0/25": "", "127.0.0.0/24": "",
		"192.168.1.0/24": "", "::/0": "", "x": ""} {
		got, err := w.manager.passOn(t.Context(), Member{Peer: a.ID(), Account: "ada", Role: member.Peer, Prefix: seen}, ride)
		if err != nil || string(got) != "from "+want {
			t.Errorf("seen in %q: %q, %v", seen, got, err)
		}
	}
}

// TestRidesOfPeersAreRefused checks that a peer cannot speak in another's name, and that only servers pass requests
// on.
func TestRidesOfPeersAreRefused(t *testing.T) {
	_, a, b := pair(t, Config{})
	b.HandleRidden(rider, 1000, time.Second, func(context.Context, Member, []byte) ([]byte, error) {
		t.Error("a request in another's name was answered")
		return nil, nil
	})
	other, err := PeerID(newKey())
	if err != nil {
		t.Fatal(err)
	}
	forged, err := proto.Marshal(&wirepb.Ride{Peer: other.String(), Protocol: string(rider), Role: uint32(member.Manager)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Call(t.Context(), b.ID(), ProtoPassed, forged, 100); !errors.Is(err, Refused) {
		t.Errorf("passed on by a peer: %v", err)
	}
	if b.numbers.count("role") != 1 {
		t.Error("not counted")
	}
	if _, err := a.Call(t.Context(), b.ID(), ProtoRide, forged, 100); !errors.Is(err, NotFound) {
		t.Errorf("a peer was asked to pass on: %v", err)
	}
}

// TestLostRideIsNoRefusal checks that a server whose member does not answer in time says so, and that this is not
// taken for a refusal.
func TestLostRideIsNoRefusal(t *testing.T) {
	w := newNet(t, openPolicy)
	a, b := w.member(Config{}), w.mute(Config{})
	b.HandleRidden(rider, 10, time.Second, func(ctx context.Context, _ Member, _ []byte) ([]byte, error) {
		w.manager.gate.ClosePeer(b.ID())
		<-ctx.Done()
		return nil, ctx.Err()
	})
	_, err := a.Ride(t.Context(), w.manager.ID(), b.ID(), rider, nil, 10)
	var s *Status
	if errors.As(err, &s) || !errors.Is(err, ErrUnreachable) {
		t.Errorf("lost on the way: %v", err)
	}
}

// Servers dial peers back as strangers, through the gate.
func TestDialBack(t *testing.T) {
	w := newNet(t, openPolicy)
	for _, quic := range []bool{false, true} {
		n := w.member(Config{QUIC: quic, autonat: []autonatv2.AutoNATOption{autonatv2.AllowPrivateAddrs}})
		m := w.node(Config{Role: member.Manager, QUIC: quic, autonat: []autonatv2.AutoNATOption{autonatv2.AllowPrivateAddrs}})
		if err := m.SetIssuer(w.issuer, w.manager.papers.verifier.SealedDocument()); err != nil {
			t.Fatal(err)
		}
		if err := n.Connect(t.Context(), m.ID(), m.Addrs()...); err != nil {
			t.Fatal(err)
		}
		var addr ma.Multiaddr
		for _, a := range n.host.Addrs() {
			if isQUIC(a) == quic {
				addr = a
			}
		}
		var got autonatv2.Result
		eventually(t, "the server has dialled", func() bool {
			var err error
			got, err = n.autonat.GetReachability(t.Context(), []autonatv2.Request{{Addr: addr, SendDialData: true}})
			return err == nil && !got.AllAddrsRefused // as the first manager does, which does not dial private addresses
		})
		if got.Reachability != network.ReachabilityPublic {
			t.Errorf("%s: %+v", addr, got)
		}
	}
	if n := w.member(Config{}); n.numbers.count("other_protocol") != 0 {
		t.Error("counted as a stranger's")
	}
}

// What a stranger may send to a peer that waits for a dial-back is one number.
func TestDialBackOfStrangers(t *testing.T) {
	w := newNet(t, openPolicy)
	n := w.member(Config{})
	c := w.raw(w.node(Config{}), n)
	for _, b := range [][]byte{nil, {9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}, bytes.Repeat([]byte{0xff}, 4096)} {
		s, err := c.NewStream(t.Context())
		if err != nil {
			return // closed, which is as good
		}
		if h, err := handlerOf(n.host.Mux(), autonatv2.DialBackProtocol); err != nil || h == nil {
			t.Fatal(err)
		}
		s.Write(b)
		s.Close()
	}
	eventually(t, "the gate has not admitted it", func() bool { _, is := n.Member(c.LocalPeer()); return !is })
}

// TestRelay checks that a member that cannot be dialled is met at its home: the connection through the relay is a
// member's like any other.
func TestRelay(t *testing.T) {
	w := newNet(t, openPolicy)
	a, b := w.member(Config{}), w.mute(Config{})
	if err := a.reserve(t.Context(), w.manager.ID()); err != nil || a.Relays() != nil {
		t.Fatalf("reserved without need: %v, %v", a.Relays(), err)
	}
	if err := b.reserve(t.Context(), w.manager.ID()); err != nil {
		t.Fatal(err)
	}
	relays := b.Relays()
	if len(relays) != 1 || RelayOf(relays[0]) != w.manager.ID() {
		t.Fatalf("met at %v", relays)
	}
	eventually(t, "others are told", func() bool { return strings.Contains(strings.Join(b.Addrs(), " "), "p2p-circuit") })
	info := peer.AddrInfo{ID: b.ID(), Addrs: []ma.Multiaddr{ma.StringCast(relays[0])}}
	if err := a.host.Connect(network.WithAllowLimitedConn(t.Context(), "test"), info); err != nil {
		t.Fatal(err)
	}
	knows(t, b, a)
	if m, is := b.Member(a.ID()); !is || m.Label != "ada" || b.Direct(a.ID()) {
		t.Errorf("%+v, %v; direct: %v", m, is, b.Direct(a.ID()))
	}
	if r := a.Reach(); r.Relayed != 1 || r.Direct != 1 {
		t.Errorf("%+v", r)
	}
	// No request goes that way: it fails now, and does not wait for a direct way until its time is up.
	if _, err := a.Call(t.Context(), b.ID(), "/echo", nil, 10); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a call over the relay: %v", err)
	}
	if err := a.Connect(t.Context(), b.ID()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("connected by a relay: %v", err)
	}
	w.manager.gate.ClosePeer(b.ID())
	eventually(t, "the reservation ends with the connection", func() bool { return b.Relays() == nil })
}

// TestSeen checks that a server tells any node where it sees it over UDP: at the port on which it listens, through
// which others will come.
func TestSeen(t *testing.T) {
	w := newNet(t, openPolicy)
	n, m := w.member(Config{QUIC: true}), w.node(Config{Role: member.Manager, QUIC: true})
	if err := m.SetIssuer(w.issuer, w.manager.papers.verifier.SealedDocument()); err != nil {
		t.Fatal(err)
	}
	udp := func(n *Node) ma.Multiaddr {
		for _, a := range n.host.Addrs() {
			if isQUIC(a) {
				return a
			}
		}
		t.Fatal("it does not listen over QUIC")
		return nil
	}
	at, err := n.seenFrom(t.Context(), udp(m), m.ID())
	if err != nil || !at.Equal(udp(n)) {
		t.Errorf("seen at %s, %v; listens at %s", at, err, udp(n))
	}
	if _, is := m.Member(n.ID()); is {
		t.Error("who asked has become a member by it")
	}
	other := w.member(Config{QUIC: true})
	if at, err := n.seenFrom(t.Context(), udp(other), other.ID()); err == nil {
		t.Errorf("a peer tells %s", at)
	}
	if _, err := n.meet(t.Context(), Member{}, nil); !errors.Is(err, NotFound) {
		t.Errorf("asked to meet, and not hidden: %v", err)
	}
	// A member that was seen lately punches with that address, is ready for the other side as soon as it says so, and
	// does not give the address away.
	punches := func() bool { return slices.Contains(n.host.Mux().Protocols(), holepunch.Protocol) }
	if err := n.prepare(t.Context(), m.ID()); err == nil || punches() {
		t.Errorf("nobody has seen it, and it is ready to punch: %v", err)
	}
	n.noteOutside(m.ID(), ma.StringCast("/ip4/1.2.3.4/udp/5/quic-v1"))
	if got := n.punchAddrs(); len(got) != 1 || got[0].String() != "/ip4/1.2.3.4/udp/5/quic-v1" {
		t.Errorf("punches at %v", got)
	}
	if err := n.prepare(t.Context(), m.ID()); err != nil || !punches() {
		t.Errorf("not ready to punch: %v", err)
	}
	if got := n.Addrs(); slices.ContainsFunc(got, func(a string) bool { return strings.Contains(a, "1.2.3.4") }) {
		t.Errorf("tells %v", got)
	}
	if n.Close(); n.prepare(t.Context(), m.ID()) == nil {
		t.Error("ready after its end")
	}
}

func TestRelayOf(t *testing.T) {
	id, err := PeerID(newKey())
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]peer.ID{
		"/p2p/" + id.String() + "/p2p-circuit":                     id,
		"/ip4/192.0.2.1/tcp/1/p2p/" + id.String() + "/p2p-circuit": id,
		"/ip4/192.0.2.1/tcp/1/p2p/" + id.String():                  "",
		"/ip4/192.0.2.1/tcp/1":                                     "", "/p2p-circuit": "", "": "", "x": "",
	} {
		if got := RelayOf(addr); got != want {
			t.Errorf("%s: %s", addr, got)
		}
	}
}

func FuzzRide(f *testing.F) {
	b, err := proto.Marshal(&wirepb.Ride{Peer: "12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf", Protocol: string(rider), Request: []byte("x"), Role: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{10, 3, 'x', 'y', 'z'})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, id, err := readRide(b)
		if err != nil {
			return
		}
		if id.Validate() != nil || len(m.Protocol) > maxProtocol {
			t.Fatalf("%v of %q", m, id)
		}
	})
}

func FuzzRelayOf(f *testing.F) {
	f.Add("/p2p/12D3KooWGzxzKZYveHXtpG6AsrUJBcWxHBFS2HsEoGTxrMLvKXtf/p2p-circuit")
	f.Fuzz(func(t *testing.T, s string) {
		if id := RelayOf(s); id != "" && id.Validate() != nil {
			t.Fatal(id)
		}
	})
}
