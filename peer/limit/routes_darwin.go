package limit

import (
	"fmt"
	"net/netip"

	bsd "golang.org/x/net/route"
	"golang.org/x/sys/unix"
)

// systemRoutes reads the routing table of both families. It returns none if there are more than maxRoutes.
func systemRoutes() ([]route, error) {
	rib, err := bsd.FetchRIB(unix.AF_UNSPEC, bsd.RIBTypeRoute, 0)
	if err != nil {
		return nil, fmt.Errorf("limit: routes: %w", err)
	}
	msgs, err := bsd.ParseRIB(bsd.RIBTypeRoute, rib)
	if err != nil {
		return nil, fmt.Errorf("limit: routes: %w", err)
	}
	if len(msgs) > maxRoutes {
		return nil, nil
	}
	var out []route
	for _, m := range msgs {
		r, ok := m.(*bsd.RouteMessage)
		// Cloned routes are of single computers, which a route of a network led to.
		const without = unix.RTF_WASCLONED | unix.RTF_LLINFO | unix.RTF_REJECT | unix.RTF_BLACKHOLE | unix.RTF_MULTICAST | unix.RTF_BROADCAST
		if !ok || r.Flags&unix.RTF_UP == 0 || r.Flags&without != 0 || len(r.Addrs) <= unix.RTAX_GATEWAY {
			continue
		}
		var mask bsd.Addr
		if len(r.Addrs) > unix.RTAX_NETMASK {
			mask = r.Addrs[unix.RTAX_NETMASK]
		}
		if to, ok := prefixIn(r.Addrs[unix.RTAX_DST], mask, r.Flags&unix.RTF_HOST != 0); ok {
			out = append(out, route{to, fmt.Sprint(r.Index, " ", gateIn(r.Addrs[unix.RTAX_GATEWAY]))})
		}
	}
	return out, nil
}

// prefixIn is a destination with its mask. A host has none, nor has the default route.
func prefixIn(to, mask bsd.Addr, host bool) (netip.Prefix, bool) {
	var addr netip.Addr
	var ones []byte
	switch a := to.(type) {
	case *bsd.Inet4Addr:
		addr = netip.AddrFrom4(a.IP)
		if m, ok := mask.(*bsd.Inet4Addr); ok {
			ones = m.IP[:]
		}
	case *bsd.Inet6Addr:
		addr = netip.AddrFrom16(a.IP)
		if m, ok := mask.(*bsd.Inet6Addr); ok {
			ones = m.IP[:]
		}
	default:
		return netip.Prefix{}, false
	}
	if host {
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	return netip.PrefixFrom(addr, onesIn(ones)), true
}

// gateIn is a gateway, or empty where a link is the way.
func gateIn(a bsd.Addr) string {
	switch a := a.(type) {
	case *bsd.Inet4Addr:
		return netip.AddrFrom4(a.IP).String()
	case *bsd.Inet6Addr:
		return netip.AddrFrom16(a.IP).String()
	}
	return ""
}

// onesIn counts the leading ones of a mask.
func onesIn(mask []byte) int {
	n := 0
	for _, b := range mask {
		for ; b&0x80 != 0; b <<= 1 {
			n++
		}
	}
	return n
}
