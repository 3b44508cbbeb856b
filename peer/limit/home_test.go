package limit

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

// house is the network of a volunteer: a rented IPv4 address, a home's IPv6 prefix, a private network.
func house() *Home {
	return &Home{routes: func() ([]route, error) { return nil, nil }, Interfaces: func() ([]net.Addr, error) {
		var out []net.Addr
		for _, s := range []string{"127.0.0.1/8", "192.168.7.20/24", "81.2.69.160/28", "2a00:1450:1:a5::20/64", "fd12:3456::1/64", "fe80::1/64"} {
			ip, n, err := net.ParseCIDR(s)
			if err != nil {
				return nil, err
			}
			out = append(out, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		return out, nil
	}}
}

// TestHomeIsNeverDialled tries ways to reach the volunteer's own network, each in several spellings, through a guard that would dial for real.
func TestHomeIsNeverDialled(t *testing.T) {
	h := house()
	h.Seen(netip.MustParseAddr("8.9.10.11"), netip.MustParseAddr("2a01:5::7"))
	h.Members(netip.MustParseAddr("9.9.9.10"), netip.MustParseAddr("2a02:77::9"))
	h.NAT64(netip.MustParsePrefix("2a00:9999::/96"), netip.MustParsePrefix("2a00:9998::/64"), netip.MustParsePrefix("2a00:9997:1::/48"), netip.MustParsePrefix("2a00:9996::/32"))
	inside := []string{
		"81.2.69.160", "81.2.69.161", "81.2.69.175", // own address and the rented network
		"2a00:1450:1:a5::20", "2a00:1450:1:a5::1", "2a00:1450:1:a5:ffff::1", // own address, router, neighbour
		"2a00:1450:1:a6::1", "2a00:1450:1:ff::1", // the home's other networks
		"8.9.10.11", "2a01:5::7", "2a01:5::8", "2a01:5:0:77::1", // seen from outside, and that prefix
		"9.9.9.10", "2a02:77::9", // members
	}
	for _, four := range []string{"81.2.69.161", "192.168.7.1", "127.0.0.1", "10.0.0.1", "8.9.10.11", "9.9.9.10", "169.254.169.254"} {
		b := netip.MustParseAddr(four).As4()
		hex := fmt.Sprintf("%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
		inside = append(inside,
			four, "::ffff:"+four, "::ffff:"+hex, "64:ff9b::"+four, "64:ff9b:0:0:0:0:"+hex, "2002:"+hex+"::1",
			"2a00:9999::"+hex, // learnt /96
			fmt.Sprintf("2a00:9998::%02x:%02x%02x:%02x00:0", b[0], b[1], b[2], b[3]),
			fmt.Sprintf("2a00:9997:1:%02x%02x:%02x:%02x00::", b[0], b[1], b[2], b[3]),
			fmt.Sprintf("2a00:9996:%02x%02x:%02x%02x::", b[0], b[1], b[2], b[3]),
			"2a03:1:2:3:0:5efe:"+hex, "2a03:1:2:3:200:5efe:"+hex, // ISATAP
			fmt.Sprintf("2001:0:4136:e378:8000:63bf:%02x%02x:%02x%02x", 0xff^b[0], 0xff^b[1], 0xff^b[2], 0xff^b[3]), // Teredo
		)
	}
	tried := 0
	for _, addr := range inside {
		a := netip.MustParseAddr(addr)
		spellings := []string{addr, a.String(), a.StringExpanded(), strings.ToUpper(addr)}
		if a.Is6() && !a.Is4In6() {
			spellings = append(spellings, addr+"%eth0")
		}
		for _, s := range spellings {
			for _, port := range []string{"80", "443", "8080"} {
				tried++
				g := &Guard{Home: h, Resolver: names{"rebound.example": {addr}}}
				for _, to := range []string{net.JoinHostPort(s, port), "rebound.example:" + port} {
					c, err := g.DialContext(t.Context(), "tcp", to)
					if c != nil {
						c.Close()
						t.Errorf("%s was dialled", to)
					}
					if !errors.Is(err, ErrForbidden) {
						t.Errorf("%s: %v; want ErrForbidden", to, err)
					}
				}
			}
		}
	}
	if tried < 200 {
		t.Errorf("only %d spellings tried", tried)
	}
}

func TestHomeLetsTheWebThrough(t *testing.T) {
	h := house()
	h.Seen(netip.MustParseAddr("8.9.10.11"), netip.MustParseAddr("2a01:5::7"))
	h.Members(netip.MustParseAddr("9.9.9.10"))
	h.NAT64(netip.MustParsePrefix("2a00:9999::/96"))
	for _, addr := range []string{"81.2.69.176", "8.9.10.12", "9.9.9.9", "1.1.1.1", "2a00:1450:1:1a5::20", "2a01:5:1::7", "2606:4700::1111", "2a00:9999::101:101"} {
		if err := h.check(netip.MustParseAddr(addr)); err != nil {
			t.Errorf("%s: %v; want no objection", addr, err)
		}
	}
}

func TestGuardPorts(t *testing.T) {
	for port := range 1 << 16 {
		p := uint16(port)
		web := p == 80 || p == 443 || p >= 8000 && p <= 8999
		if err := webPort(p); !web && err == nil {
			t.Errorf("port %d is let through", p)
		}
	}
	for _, p := range []uint16{80, 443, 8000, 8008, 8080, 8081, 8443, 8888} {
		if err := webPort(p); err != nil {
			t.Errorf("a Web server's port: %v", err)
		}
	}
	for _, p := range []uint16{22, 25, 2375, 5432, 6379, 9200, 11211, 27017, 8009, 8086, 8500, 8545, 8728} {
		if err := webPort(p); err == nil {
			t.Errorf("port %d is let through", p)
		}
	}
}

// An interface that goes is forgotten, one that comes is refused soon after; a failure to look changes nothing.
func TestHomeMoves(t *testing.T) {
	at, fail := "81.2.69.160/28", false
	h := &Home{routes: func() ([]route, error) { return nil, nil }, Interfaces: func() ([]net.Addr, error) {
		if fail {
			return nil, errors.New("no list today")
		}
		ip, n, err := net.ParseCIDR(at)
		return []net.Addr{&net.IPNet{IP: ip, Mask: n.Mask}}, err
	}}
	first, second := netip.MustParseAddr("81.2.69.161"), netip.MustParseAddr("92.1.1.1")
	if h.check(first) == nil || h.check(second) != nil {
		t.Error("before: want the first network refused and the second not")
	}
	at = "92.1.1.7/24"
	h.read = time.Now().Add(-homeFresh)
	if h.check(first) != nil || h.check(second) == nil {
		t.Error("after a move: want the second network refused and the first not")
	}
	fail, h.read = true, time.Now().Add(-homeFresh)
	if h.check(second) == nil {
		t.Error("a failure to look made an address fair game")
	}
}

// A member that connects is refused from the next dial on, and so is an address under which others begin to see this computer.
func TestHomeAsksBeforeEachDial(t *testing.T) {
	h := house()
	var seen, members []netip.Addr
	h.Ask(func() ([]netip.Addr, []netip.Addr) { return seen, members })
	offline := errors.New("no network in this test")
	g := &Guard{Home: h, Control: func(string, string, syscall.RawConn) error { return offline }}
	dial := func(at string) error { _, err := g.DialContext(t.Context(), "tcp", at); return err }
	for _, at := range []string{"9.9.9.20:80", "8.9.10.20:80"} {
		if err := dial(at); !errors.Is(err, offline) {
			t.Errorf("%s before: %v", at, err)
		}
	}
	seen, members = []netip.Addr{netip.MustParseAddr("8.9.10.20")}, []netip.Addr{netip.MustParseAddr("9.9.9.20")}
	for _, at := range []string{"9.9.9.20:80", "8.9.10.20:80"} {
		if err := dial(at); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s after: %v; want ErrForbidden", at, err)
		}
	}
}
