package limit

import (
	"cmp"
	"net/netip"
	"slices"
)

// A computer may reach networks that it is not attached to, through a VPN or a second router: a company's, say, which may have public addresses. Its
// routing tables tell which. But not every route is such a network's: a VPN may take the whole Internet in pieces, as 0.0.0.0/1 and 128.0.0.0/1, or
// as all that is left of it without some private networks; and some computers send one country's addresses another way. routed tells these apart by
// what goes the same way:
//
//   - A way carries the Internet if it is given a large part of all addresses, or more routes than a company has networks.
//   - What goes any other way is a network inside.
//   - A route that leads where a wider one of the same way leads already is there for the sake of what it names. If a way has few routes, that is a
//     network inside, too.
//
// The routes of all tables count together, since rules may choose among the tables by anything. A crawl misses nothing by that: who has a route of
// its own to a Web host leaves it to peers that have none.
const (
	carriesInternet = 1. / 8 // of all addresses
	manyRoutes      = 1000
	maxRoutes       = 1 << 16 // read; a computer with more is a router of the Internet's
)

// route is an entry of this computer's routing tables.
type route struct {
	to  netip.Prefix
	way string // device and gateway, or what else tells one way from another
}

// global is the part of the IPv6 addresses that the Internet has.
var global = netip.MustParsePrefix("2000::/3")

// routed are the networks inside to which routes lead, in order.
func routed(routes []route) []netip.Prefix {
	routes = slices.DeleteFunc(slices.Clone(routes), func(r route) bool {
		return !r.to.IsValid() || r.to.Addr().Is4In6() || r.to.Addr().IsMulticast() || r.to.Addr().Is6() && !r.to.Overlaps(global)
	})
	for i := range routes {
		routes[i].to = routes[i].to.Masked()
	}
	slices.SortFunc(routes, func(a, b route) int {
		return cmp.Or(cmp.Compare(a.way, b.way), cmp.Compare(a.to.Addr().BitLen(), b.to.Addr().BitLen()), a.to.Addr().Compare(b.to.Addr()), cmp.Compare(a.to.Bits(), b.to.Bits()))
	})
	var out []netip.Prefix
	for len(routes) > 0 {
		n := 1
		for n < len(routes) && routes[n].way == routes[0].way && routes[n].to.Addr().Is4() == routes[0].to.Addr().Is4() {
			n++
		}
		out = append(out, insideOf(routes[:n])...)
		routes = routes[n:]
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(out)
}

// insideOf are the networks inside among the routes of one way and family. A wider route comes before those within it.
func insideOf(routes []route) []netip.Prefix {
	var outer, within []netip.Prefix
	share := 0.
	for _, r := range routes {
		last := netip.Prefix{}
		if len(outer) > 0 {
			last = outer[len(outer)-1]
		}
		switch {
		case last == r.to: // again, in another table or with another metric
		case last.IsValid() && last.Overlaps(r.to):
			within = append(within, r.to)
		default:
			outer = append(outer, r.to)
			share += shareOf(r.to)
		}
	}
	switch {
	case len(routes) > manyRoutes:
		return nil
	case share >= carriesInternet:
		return within
	}
	return outer
}

// shareOf is the part of a family's addresses that a prefix has.
func shareOf(p netip.Prefix) float64 {
	bits := p.Bits()
	if p.Addr().Is6() {
		bits = max(0, bits-global.Bits())
	}
	return 1 / float64(uint64(1)<<min(bits, 62))
}
