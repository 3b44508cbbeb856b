package limit

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, s := range n[host] {
		out = append(out, netip.MustParseAddr(s))
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}

// changing resolves to a public address once and to a private one from then on: DNS rebinding.
type changing struct{ asked int }

func (c *changing) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	c.asked++
	if c.asked == 1 {
		return []netip.Addr{netip.MustParseAddr("203.0.114.7")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

func TestGuardRefuses(t *testing.T) {
	for _, addr := range []string{
		"127.0.0.1:80", "127.8.8.8:80", "0.0.0.0:80", "10.1.2.3:80", "172.16.0.1:80", "172.31.255.255:443", "192.168.1.1:80", "169.254.169.254:80",
		"100.64.0.1:80", "192.0.0.1:80", "192.0.2.1:80", "198.18.0.1:80", "198.51.100.1:80", "203.0.113.1:80", "224.0.0.1:80", "239.255.255.255:80",
		"240.0.0.1:80", "255.255.255.255:80", "[::1]:80", "[::]:80", "[fe80::1]:80", "[fe80::1%eth0]:80", "[fc00::1]:80", "[fd00:ec2::254]:80", "[ff02::1]:80",
		"[::ffff:127.0.0.1]:80", "[::ffff:10.0.0.1]:80", "[64:ff9b::7f00:1]:80", "[2002:7f00:1::]:80", "[2001:db8::1]:80",
		"8.8.8.8:22", "8.8.8.8:25", "8.8.8.8:6667", "8.8.8.8:0", "inside.example:80", "mixed-only-private.example:443", "site-0001.pond.test:80",
		"SITE.POND.TEST.:80", "nowhere", "8.8.8.8:http:80",
	} {
		g := &Guard{Resolver: names{"inside.example": {"10.0.0.8"}, "mixed-only-private.example": {"::1", "192.168.0.1", "::ffff:127.0.0.1"}}}
		c, err := g.DialContext(t.Context(), "tcp", addr)
		if c != nil {
			c.Close()
			t.Errorf("%s was dialled", addr)
		}
		if !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v; want ErrForbidden", addr, err)
		}
	}
}

func TestGuardDialsOnlyWhatItChecked(t *testing.T) {
	r := &changing{}
	var dialled []string
	offline := errors.New("no network in this test")
	g := &Guard{Resolver: r, Control: func(_, address string, _ syscall.RawConn) error {
		dialled = append(dialled, address)
		return offline
	}}
	if _, err := g.DialContext(t.Context(), "tcp", "rebind.example:80"); !errors.Is(err, offline) {
		t.Fatal(err)
	}
	if r.asked != 1 || len(dialled) != 1 || dialled[0] != "203.0.114.7:80" {
		t.Errorf("resolved %d times, dialled %v; the address checked must be the address dialled", r.asked, dialled)
	}
	if _, err := g.DialContext(t.Context(), "tcp", "rebind.example:80"); !errors.Is(err, ErrForbidden) {
		t.Errorf("after the name moved inside: %v", err)
	}
}

func TestGuardAllow(t *testing.T) {
	no := errors.New("policy says no")
	g := &Guard{Resolver: names{"denied.example": {"203.0.114.9"}}, Allow: func(host string, a netip.Addr) error {
		if host != "denied.example" || a.String() != "203.0.114.9" {
			t.Errorf("asked about %s %v", host, a)
		}
		return no
	}}
	if _, err := g.DialContext(t.Context(), "tcp", "denied.example:80"); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
}

func TestPond(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent()) // of other tests
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pond, err := ToPond(netip.MustParseAddrPort(l.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	g := &Guard{Pond: pond}
	for _, name := range []string{"site-0001.pond.test:80", "a.pond.test:8080"} {
		c, err := g.DialContext(t.Context(), "tcp", name)
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := c.(interface{ ConnectTime() time.Duration }); !ok || d.ConnectTime() <= 0 {
			t.Errorf("%s: nobody knows how long the handshake took", name)
		}
		c.Close()
	}
	for _, name := range []string{"pond.test:80", "pond.test.example:80", "127.0.0.1:80", "localhost:80"} {
		g.Resolver = names{"localhost": {"127.0.0.1", "::1"}, "pond.test": {"127.0.0.1"}, "pond.test.example": {"127.0.0.1"}}
		if _, err := g.DialContext(t.Context(), "tcp", name); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ToPond(netip.MustParseAddrPort("192.168.0.1:80")); !errors.Is(err, ErrForbidden) {
		t.Errorf("a pond at a private address: %v", err)
	}
}

func TestAlternate(t *testing.T) {
	var in []netip.AddrPort
	for _, s := range []string{"1.1.1.1:80", "1.1.1.2:80", "[2a00::1]:80", "[2a00::2]:80", "1.1.1.3:80"} {
		in = append(in, netip.MustParseAddrPort(s))
	}
	got := alternate(in)
	want := []string{"[2a00::1]:80", "1.1.1.1:80", "[2a00::2]:80", "1.1.1.2:80", "1.1.1.3:80"}
	for i := range want {
		if got[i].String() != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}
