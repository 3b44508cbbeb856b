package desk

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"code.dny.dev/ssrf"

	"shoal/channel"
)

// inside are the ends of names that mean something within one network only, or that the Web never resolves.
var inside = []string{"localhost", "localdomain", "local", "internal", "home.arpa", "lan", "test", "invalid", "onion"}

var guardian = ssrf.New(ssrf.WithAnyPort()) // holds no state that changes

// PublicHost refuses at once what every peer would refuse when it dials: addresses that are not public, names that are not, and ports on which no public Web
// server is expected.
func PublicHost(origin string) error {
	u, err := url.Parse(origin)
	if err != nil {
		return fmt.Errorf("%q cannot be crawled: %w", origin, err)
	}
	if name := strings.TrimSuffix(u.Hostname(), "."); !strings.ContainsAny(name, ".:") && !slices.Contains(inside, strings.ToLower(name)) {
		return fmt.Errorf("%s is no name of a site: it has no dot, and the Web has no such names; write it whole, as in example.org", origin)
	}
	if !publicName(u.Hostname()) {
		return fmt.Errorf("%s is not on the public Web: peers fetch from public addresses only, so that nobody can use them to look into a private network. To try Shoal on this machine, run shoal up without a URL", origin)
	}
	if u.Port() == "" {
		return nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || !channel.WebPort(uint16(port)) {
		return fmt.Errorf("%s: peers fetch from ports 80, 443 and 8000 to 8999 only, without those of other well-known services, so that nobody can use them to talk to databases and the like; port %s is none of these. Name the site's public address", origin, u.Port())
	}
	return nil
}

// publicName reports whether a host's name, or its address, may be one of the public Web.
func publicName(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err == nil {
		network, addr := "tcp6", ip.WithZone("")
		if addr.Unmap().Is4() {
			network, addr = "tcp4", addr.Unmap()
		}
		return guardian.Safe(network, netip.AddrPortFrom(addr, 443).String(), nil) == nil
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	for _, end := range inside {
		if name == end || strings.HasSuffix(name, "."+end) {
			return false
		}
	}
	return true
}
