package wire

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"shoal/internal/member"
)

// kad-dht runs on the host as it is: members find each other through it, strangers get nothing from it.
func TestKadDHTBehindTheGate(t *testing.T) {
	w := newNet(t, openPolicy)
	nodes := []*Node{w.manager}
	for range 4 {
		nodes = append(nodes, w.member(Config{}))
	}
	var tables []*dht.IpfsDHT
	for i, n := range nodes {
		mode := dht.ModeServer
		d, err := dht.New(n.Host(), dht.Mode(mode), dht.ProtocolPrefix("/shoal/test"), dht.DisableAutoRefresh(), dht.BucketSize(20),
			dht.BootstrapPeers(peer.AddrInfo{ID: w.manager.ID(), Addrs: w.manager.Host().Addrs()}))
		if err != nil {
			t.Fatal(i, err)
		}
		t.Cleanup(func() { d.Close() })
		tables = append(tables, d)
	}
	eventually(t, "the manager's table holds all", func() bool { return tables[0].RoutingTable().Size() == 4 })
	first, last := tables[1], nodes[4]
	eventually(t, "a member finds another through it", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		info, err := first.FindPeer(ctx, last.ID())
		return err == nil && len(info.Addrs) > 0
	})
}

func TestQUIC(t *testing.T) {
	w := newNet(t, openPolicy)
	a, b := w.member(Config{QUIC: true}), w.member(Config{QUIC: true})
	serveEcho(b)
	var quic string
	ports := map[string]bool{}
	for _, addr := range b.Addrs() {
		m := ma.StringCast(addr)
		for _, p := range []int{ma.P_TCP, ma.P_UDP} {
			if v, err := m.ValueForProtocol(p); err == nil {
				ports[v] = true
			}
		}
		if strings.Contains(addr, "quic-v1") {
			quic = addr
		}
	}
	if len(ports) != 1 || quic == "" {
		t.Fatalf("listens at %v", b.Addrs())
	}
	if err := a.Connect(t.Context(), b.ID(), quic); err != nil {
		t.Fatal(err)
	}
	if resp, err := a.Call(t.Context(), b.ID(), echo, []byte("x"), 10); err != nil || string(resp) != "ada:x" {
		t.Fatalf("%q, %v", resp, err)
	}
	for _, c := range a.Host().Network().ConnsToPeer(b.ID()) {
		if !strings.Contains(c.RemoteMultiaddr().String(), "quic") {
			t.Errorf("connected by %s", c.RemoteMultiaddr())
		}
	}
}

func TestDialerHook(t *testing.T) {
	w := newNet(t, openPolicy)
	var dialled atomic.Int32
	n := w.node(Config{Dialer: func(ma.Multiaddr) (tcp.ContextDialer, error) {
		dialled.Add(1)
		return &net.Dialer{}, nil
	}})
	if err := n.Join(t.Context(), w.joinString(), ""); err != nil || dialled.Load() == 0 {
		t.Fatal(err, dialled.Load())
	}
}

// count is a refusal's counter.
func (m *numbers) count(reason string) float64 {
	return value(m.refused.WithLabelValues(reason))
}

func value(c prometheus.Collector) float64 {
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil || len(families) != 1 || len(families[0].Metric) != 1 {
		return -1
	}
	return families[0].Metric[0].GetCounter().GetValue()
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	w := newNet(t, openPolicy)
	n := w.member(Config{Metrics: reg})
	serveEcho(n)
	if _, err := w.manager.Call(t.Context(), n.ID(), echo, []byte("x"), 100); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a call is counted after its answer", func() bool { return value(n.served.WithLabelValues(string(echo), "ok")) == 1 })
	families, err := n.Metrics().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			got[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, atLeast := range map[string]float64{"shoal_wire_members": 1, "shoal_wire_served_total": 1, "shoal_wire_served_seconds": 1, "shoal_wire_sent_bytes_total": 100, "shoal_wire_received_bytes_total": 100} {
		if got[name] < atLeast {
			t.Errorf("%s is %v in %v", name, got[name], got)
		}
	}
	if _, err := New(t.Context(), Config{Key: newKey(), Network: w.root.ID(), Metrics: reg}); err == nil || !strings.Contains(err.Error(), "registry of its own") {
		t.Errorf("two nodes in one registry: %v", err)
	}
	eventually(t, "the join is counted", func() bool { return value(w.manager.joined) == 1 })
	// The process's registry is left alone.
	all, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if strings.HasPrefix(f.GetName(), "shoal_") {
			t.Errorf("%s in the default registry", f.GetName())
		}
	}
}

func TestBadConfig(t *testing.T) {
	id := member.NewRoot(newKey()).ID()
	for name, c := range map[string]Config{
		"no key": {Network: id}, "no network": {Key: newKey()}, "negative": {Key: newKey(), Network: id, Limits: Limits{Conns: -1}},
		"low above high": {Key: newKey(), Network: id, Limits: Limits{Conns: 5, LowConns: 6}},
	} {
		if _, err := New(t.Context(), c); err == nil {
			t.Errorf("took a configuration with %s", name)
		}
	}
}

func TestPerAddressLimits(t *testing.T) {
	l := DefaultLimits(member.Peer)
	m, err := l.manager()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	big, err := DefaultLimits(member.Manager).manager()
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	open := func(m interface {
		OpenConnection(network.Direction, bool, ma.Multiaddr) (network.ConnManagementScope, error)
	}, from string) (n int) {
		for n < 1000 {
			s, err := m.OpenConnection(network.DirInbound, true, ma.StringCast(from))
			if err != nil {
				return n
			}
			defer s.Done()
			if err := s.SetPeer(peer.ID([]byte{byte(n), byte(n >> 8)})); err != nil {
				return n
			}
			n++
		}
		return n
	}
	for _, addr := range []string{"/ip4/198.51.100.7/tcp/5000", "/ip6/2001:db8::7/tcp/5000"} {
		if n := open(m, addr); n != l.PerAddr {
			t.Errorf("a peer takes %d connections from %s, not %d", n, addr, l.PerAddr)
		}
		if n := open(big, addr); n != 1000 {
			t.Errorf("a manager takes only %d connections from %s", n, addr)
		}
	}
}
