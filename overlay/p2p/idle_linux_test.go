package p2p

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/lab/netlab"
	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/overlay"
)

// TestIdle measures what a peer at rest costs its router: with connections to eight members held, each in a network of its own, it counts
// the overlay's messages and the packets that the kernel counts on the peer's interface, for SHOAL_IDLE seconds.
func TestIdle(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("SHOAL_IDLE"))
	if err != nil {
		t.Skip("takes minutes of real time: make idle")
	}
	lab := netlab.Open(t, "a peer at rest is")
	var hosts []*netlab.Host
	for i := range 9 {
		h, err := lab.Site(fmt.Sprint("s", i), fmt.Sprintf("11.0.%d.1/24", i+1))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range hosts {
			lab.Distance(h, o, 30*time.Millisecond, 0)
		}
		hosts = append(hosts, h)
	}
	at := func(i int) string { return fmt.Sprintf("/ip4/%s/tcp/%d", hosts[i].Addr, wire.DefaultPort) }
	listen := func(i int, cfg wire.Config) (n *wire.Node) {
		cfg.Limits = wire.Limits{Held: 32, LowConns: 16} // that no connection is given up while it is measured
		cfg.Patience, cfg.QUIC, cfg.Listen, cfg.Announce = patience, true, []string{at(i)}, []string{at(i)}
		cfg.Dialer = func(ma.Multiaddr) (tcp.ContextDialer, error) { return homely{hosts[i]}, nil }
		if err := hosts[i].Do(func() (err error) { n, err = wire.New(t.Context(), cfg); return err }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := openNet(t, func(c wire.Config) *wire.Node { return listen(0, c) })
	rest := func(n *wire.Node, cfg Config) *site { // as it is once the young phase is over
		o := overlay.Default(overlay.ID(n.ID().String()))
		o.Young = 1
		cfg.Overlay = o
		return startAs(t, n, cfg, nil)
	}
	n.boss = rest(n.boss.node, Config{Places: true, DHT: true})
	for i := 1; i < len(hosts); i++ {
		pn := listen(i, wire.Config{Key: [32]byte{byte(i), 7}, Network: n.keys.Network})
		if err := pn.Join(t.Context(), member.JoinString{Network: n.keys.Network, Addrs: n.boss.node.Addrs()}, fmt.Sprint("account", i)); err != nil {
			t.Fatal(err)
		}
		run(t, pn)
		n.peers = append(n.peers, rest(pn, Config{Queue: &bin{room: 1}, DHT: true}))
	}
	one := n.peers[0]
	hold := func() {
		for _, p := range n.peers[1:] {
			if err := one.node.Connect(t.Context(), p.node.ID(), p.node.Addrs()...); err != nil {
				t.Fatal(err)
			}
		}
	}
	hold()
	for _, p := range n.peers[1:] { // as slowly as they speak at rest, hearsay might take minutes
		one.runner.post(t.Context(), func(life context.Context, _ time.Time) { one.runner.greet(life, p.runner.id, bare(p.node.Addrs())) })
	}
	n.until("it knows all", func() bool { return len(one.runner.Peers()) == 8 })
	time.Sleep(20 * time.Second) // what joining and connecting cost
	hold()

	counted := func() (messages, packets, bytes int64) {
		out, err := hosts[1].Command("cat", "/proc/net/dev").Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if name, rest, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "wan" {
				f := strings.Fields(rest)
				number := func(i int) int64 { n, _ := strconv.ParseInt(f[i], 10, 64); return n }
				bytes, packets = number(0)+number(8), number(1)+number(9)
			}
		}
		return one.runner.sent.Load(), packets, bytes
	}
	m0, p0, b0 := counted()
	began, least, most := time.Now(), 9, 0
	for time.Since(began) < time.Duration(seconds)*time.Second {
		time.Sleep(time.Second)
		least, most = min(least, one.node.Reach().Direct), max(most, one.node.Reach().Direct)
	}
	m1, p1, b1 := counted()
	minutes := time.Since(began).Minutes()
	t.Logf("at rest, %d to %d connections: %.2f messages and %.0f packets of together %.1f kB a minute over %.1f minutes", least, most,
		float64(m1-m0)/minutes, float64(p1-p0)/minutes, float64(b1-b0)/minutes/1e3, minutes)
	if least != 8 || most != 8 {
		t.Errorf("%d to %d connections were held", least, most)
	}
	if float64(m1-m0)/minutes > 3 && minutes >= 5 {
		t.Error("more than 3 messages a minute")
	}
}

// homely dials from a host of a lab.
type homely struct{ *netlab.Host }

func (h homely) DialContext(ctx context.Context, network, addr string) (c net.Conn, err error) {
	err = h.Do(func() error {
		d := net.Dialer{KeepAlive: -1}
		c, err = d.DialContext(ctx, network, addr)
		return err
	})
	return c, err
}
