package wire

import (
	"math"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/x/rate"

	"shoal/internal/member"
)

// Limits bound what the others can make a node hold.
type Limits struct {
	Conns       int     // connections, however short-lived
	Held        int     // connections; from there on the least useful are closed down to LowConns, once they are older than any exchange takes
	LowConns    int     // connections that are kept for as long as they live
	Strangers   int     // connections of others that are not members' yet; beyond that the oldest of the prefix that has most closes
	PerAddr     int     // connections from one IPv4 address or IPv6 /56
	RatePerAddr float64 // new connections a second from there, after a burst of PerAddr
	Streams     int     // open streams
	Memory      int64   // bytes that frames may hold, coming or going
	Calls       int     // requests of one peer that run at a time

	// Of Memory, what members of role Peer may hold. A member that holds nothing else is given one answer of any size beyond it.
	MemoryPerPrefix, MemoryPerAccount, MemoryPerMember int64
}

// DefaultLimits are those of a role. Managers and archives are where a company's volunteers come from one address.
func DefaultLimits(r member.Role) Limits {
	switch r {
	case member.Manager, member.Archive, member.Relay:
		return Limits{Conns: 12_000, Held: 12_000, LowConns: 10_000, Strangers: 1024, PerAddr: 4096, RatePerAddr: 50, Streams: 20_000, Calls: 32,
			Memory: 512 << 20, MemoryPerPrefix: 192 << 20, MemoryPerAccount: 96 << 20, MemoryPerMember: 24 << 20}
	default:
		return Limits{Conns: 96, Held: 8, LowConns: 6, Strangers: 48, PerAddr: 16, RatePerAddr: 0.5, Streams: 768, Calls: 16,
			Memory: 160 << 20, MemoryPerPrefix: 24 << 20, MemoryPerAccount: 12 << 20, MemoryPerMember: 6 << 20}
	}
}

func (l Limits) or(d Limits) Limits {
	pick := func(a, b int) int {
		if a == 0 {
			return b
		}
		return a
	}
	l.Conns, l.Held, l.LowConns, l.PerAddr = pick(l.Conns, d.Conns), pick(l.Held, d.Held), pick(l.LowConns, d.LowConns), pick(l.PerAddr, d.PerAddr)
	l.Strangers = pick(l.Strangers, d.Strangers)
	l.Streams, l.Calls = pick(l.Streams, d.Streams), pick(l.Calls, d.Calls)
	if l.RatePerAddr == 0 {
		l.RatePerAddr = d.RatePerAddr
	}
	for _, m := range []struct{ of, from *int64 }{{&l.Memory, &d.Memory}, {&l.MemoryPerPrefix, &d.MemoryPerPrefix}, {&l.MemoryPerAccount, &d.MemoryPerAccount},
		{&l.MemoryPerMember, &d.MemoryPerMember}} {
		if *m.of == 0 {
			*m.of = *m.from
		}
	}
	return l
}

// What one peer may have sent before it is read: the streams that it opened, and the multiplexer's first window of
// each (yamux: 256 KiB).
const (
	peerStreams = 96
	firstWindow = 256 << 10
)

// manager is the resource manager of these limits. Scopes that libp2p counts beside ours (per service, per protocol) get no narrower
// limit than the system as a whole; what bounds a single peer is PeerDefault.
func (l Limits) manager() (network.ResourceManager, error) {
	// What libp2p counts as memory are windows: the memory that it would need if the other side sent all that it may
	// before anything is read.
	windows := int64(l.Streams) * firstWindow
	big := rcmgr.ResourceLimits{Streams: rcmgr.LimitVal(l.Streams), StreamsInbound: rcmgr.LimitVal(l.Streams), StreamsOutbound: rcmgr.LimitVal(l.Streams),
		Conns: rcmgr.LimitVal(l.Conns + l.Conns/4), ConnsInbound: rcmgr.LimitVal(l.Conns + l.Conns/4), ConnsOutbound: rcmgr.LimitVal(l.Conns + l.Conns/4),
		FD: rcmgr.LimitVal(l.Conns + l.Conns/4), Memory: rcmgr.LimitVal64(windows)}
	transient := big // connections in their handshake, which Strangers bounds, and streams in negotiation
	one := rcmgr.ResourceLimits{Streams: 256, StreamsInbound: peerStreams, StreamsOutbound: 192, Conns: 8, ConnsInbound: 4, ConnsOutbound: 4,
		FD: 8, Memory: peerStreams * firstWindow}
	partial := rcmgr.PartialLimitConfig{System: big, Transient: transient, AllowlistedSystem: big, AllowlistedTransient: transient,
		ServiceDefault: big, ServicePeerDefault: one, ProtocolDefault: big, ProtocolPeerDefault: one, PeerDefault: one}
	concrete := partial.Build(rcmgr.DefaultLimits.Scale(windows, l.Conns))
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
