package limit

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// table makes routes of lines "prefix way".
func table(lines ...[2]string) (out []route) {
	for _, l := range lines {
		out = append(out, route{netip.MustParsePrefix(l[0]), l[1]})
	}
	return out
}

// without is all IPv4 addresses but those of a prefix, in as few prefixes as can be, as VPNs ask for it.
func withoutPrefix(p netip.Prefix) (out []netip.Prefix) {
	b := p.Addr().As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	for bits := 1; bits <= p.Bits(); bits++ {
		other := n ^ 1<<(32-bits)
		other &^= 1<<(32-bits) - 1
		out = append(out, netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(other >> 24), byte(other >> 16), byte(other >> 8), byte(other)}), bits))
	}
	return out
}

func TestRouted(t *testing.T) {
	home := table([2]string{"0.0.0.0/0", "eth0 192.168.1.1"}, [2]string{"192.168.1.0/24", "eth0"}, [2]string{"127.0.0.0/8", "local"}, [2]string{"192.168.1.5/32", "local"},
		[2]string{"::/0", "eth0 fe80::1"}, [2]string{"2a00:1450:1:a5::/64", "eth0"}, [2]string{"fe80::/64", "eth0"}, [2]string{"ff00::/8", "eth0"})
	with := func(lines ...[2]string) []route { return slices.Concat(home, table(lines...)) }
	var rest, country, manyNetworks []route
	for _, p := range withoutPrefix(netip.MustParsePrefix("192.168.0.0/16")) {
		rest = append(rest, route{p, "tun0"})
	}
	for i := range 6000 {
		country = append(country, route{netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(30 + i>>8), byte(i), 0, 0}), 16), "eth0 192.168.1.1"})
		manyNetworks = append(manyNetworks, route{netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(30 + i>>8), byte(i), 0, 0}), 20), fmt.Sprint("eth0 10.0.0.", i%4)})
	}
	for _, c := range []struct {
		what            string
		routes          []route
		inside, outside []string
	}{
		{"at home", home, []string{"192.168.1.7", "2a00:1450:1:a5::1"}, []string{"1.1.1.1", "198.51.100.7", "2606:4700::1111"}},
		{"a VPN brings a company's network", with([2]string{"198.51.100.0/24", "tun0"}, [2]string{"2001:db8:5::/48", "tun0"}), []string{"198.51.100.7", "2001:db8:5::7"}, []string{"198.51.101.7", "1.1.1.1", "2001:db8:6::7"}},
		{"a VPN brings many large networks", with([2]string{"9.0.0.0/8", "tun0"}, [2]string{"11.0.0.0/8", "tun0"}, [2]string{"17.0.0.0/8", "tun0"}), []string{"9.1.1.1", "11.1.1.1", "17.1.1.1"}, []string{"8.8.8.8", "18.1.1.1"}},
		{"a second router leads to a network", with([2]string{"198.51.100.0/24", "eth0 192.168.1.254"}), []string{"198.51.100.7"}, []string{"1.1.1.1"}},
		{"a network on the link without an address of it", with([2]string{"198.51.100.0/24", "eth0"}), []string{"198.51.100.7"}, []string{"1.1.1.1"}},
		{"a VPN takes all in two halves", with([2]string{"0.0.0.0/1", "tun0"}, [2]string{"128.0.0.0/1", "tun0"}, [2]string{"203.0.113.9/32", "eth0 192.168.1.1"}, [2]string{"::/1", "tun0"}, [2]string{"8000::/1", "tun0"}),
			[]string{"203.0.113.9"}, []string{"1.1.1.1", "198.51.100.7", "2606:4700::1111"}},
		{"a VPN takes all in two halves and names a network", with([2]string{"0.0.0.0/1", "tun0"}, [2]string{"128.0.0.0/1", "tun0"}, [2]string{"198.51.100.0/24", "tun0"}), []string{"198.51.100.7"}, []string{"1.1.1.1"}},
		{"a VPN takes IPv6 in parts", with([2]string{"2000::/4", "tun0"}, [2]string{"3000::/4", "tun0"}, [2]string{"fc00::/7", "tun0"}), nil, []string{"2606:4700::1111", "3fff::1"}},
		{"a VPN takes all but private networks", slices.Concat(home, rest), nil, []string{"1.1.1.1", "198.51.100.7", "192.169.1.1", "193.1.1.1"}},
		{"a VPN's default route is in a table of its own", with([2]string{"0.0.0.0/0", "wg0"}, [2]string{"::/0", "wg0"}), nil, []string{"1.1.1.1", "2606:4700::1111"}},
		{"one country goes past the VPN", with(append([][2]string{{"0.0.0.0/1", "tun0"}, {"128.0.0.0/1", "tun0"}}, lines(country)...)...), nil, []string{"30.1.1.1", "1.1.1.1"}},
		{"a router of the Internet's", manyNetworks, nil, []string{"30.0.0.1", "1.1.1.1"}},
		{"two ways out", with([2]string{"0.0.0.0/0", "wlan0 10.1.1.1"}, [2]string{"0.0.0.0/0", "eth0 192.168.1.1"}), nil, []string{"1.1.1.1", "198.51.100.7"}},
		{"all is local to a proxy", with([2]string{"0.0.0.0/0", "local lo"}, [2]string{"198.51.100.0/24", "local"}), []string{"198.51.100.7"}, []string{"1.1.1.1"}},
	} {
		got := routed(c.routes)
		in := func(a string) bool {
			return slices.ContainsFunc(got, func(p netip.Prefix) bool { return p.Contains(netip.MustParseAddr(a)) })
		}
		for _, a := range c.inside {
			if !in(a) {
				t.Errorf("%s: %s is outside of %v", c.what, a, got)
			}
		}
		for _, a := range c.outside {
			if in(a) {
				t.Errorf("%s: %s is inside of %v", c.what, a, got)
			}
		}
	}
}

// lines is the opposite of table.
func lines(routes []route) (out [][2]string) {
	for _, r := range routes {
		out = append(out, [2]string{r.to.String(), r.way})
	}
	return out
}

// The system's tables are read whole: each of them has a route to the loopback network.
func TestSystemRoutes(t *testing.T) {
	routes, err := systemRoutes()
	if err != nil {
		t.Fatal(err)
	}
	loopback := netip.MustParseAddr("127.0.0.1")
	if !slices.ContainsFunc(routes, func(r route) bool { return r.to.Bits() >= 8 && r.to.Contains(loopback) }) {
		t.Errorf("no route to %v among %v", loopback, routes)
	}
}

// A network to which a VPN brings a route is refused, until the route goes; a failure to look changes nothing. What a translator's prefix leads to is
// checked itself.
func TestHomeFollowsRoutes(t *testing.T) {
	h := house()
	var routes []route
	fail := error(nil)
	h.routes = func() ([]route, error) { return routes, fail }
	check := func(addr string) error {
		h.read = time.Now().Add(-homeFresh)
		return h.check(netip.MustParseAddr(addr))
	}
	if err := check("198.52.100.7"); err != nil {
		t.Fatal(err)
	}
	routes = table([2]string{"0.0.0.0/0", "eth0"}, [2]string{"198.52.100.0/24", "tun0"}, [2]string{"2a00:9999::/96", "nat64"})
	if err := check("198.52.100.7"); !errors.Is(err, ErrForbidden) {
		t.Errorf("with the route: %v", err)
	}
	if err := check("2a00:9999::101:101"); !errors.Is(err, ErrForbidden) {
		t.Errorf("what is not known to be a translator: %v", err)
	}
	h.NAT64(netip.MustParsePrefix("2a00:9999::/96"))
	if err := check("2a00:9999::101:101"); err != nil {
		t.Errorf("a translator: %v", err)
	}
	for _, inside := range []string{"2a00:9999::c0a8:701", "2a00:9999::c634:6407"} {
		if err := check(inside); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v", inside, err)
		}
	}
	fail = errors.New("no tables today")
	if err := check("198.52.100.7"); !errors.Is(err, ErrForbidden) {
		t.Errorf("after a failure: %v", err)
	}
	routes, fail = nil, nil
	if err := check("198.52.100.7"); err != nil {
		t.Errorf("without the route: %v", err)
	}
}
