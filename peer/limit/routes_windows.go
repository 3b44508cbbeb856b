package limit

import (
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/windows"
)

// systemRoutes reads the routing table of both families. It returns none if there are more than maxRoutes.
func systemRoutes() ([]route, error) {
	var table *windows.MibIpForwardTable2
	if err := windows.GetIpForwardTable2(windows.AF_UNSPEC, &table); err != nil {
		return nil, fmt.Errorf("limit: routes: %w", err)
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	if table.NumEntries > maxRoutes {
		return nil, nil
	}
	var out []route
	for _, r := range unsafe.Slice(&table.Table[0], table.NumEntries) {
		if to, ok := addrIn(&r.DestinationPrefix.Prefix); ok {
			gate, _ := addrIn(&r.NextHop)
			out = append(out, route{netip.PrefixFrom(to, int(r.DestinationPrefix.PrefixLength)), fmt.Sprint(r.InterfaceLuid, " ", gate)})
		}
	}
	return out, nil
}

// addrIn is the address in a socket address.
func addrIn(s *windows.RawSockaddrInet) (netip.Addr, bool) {
	switch s.Family {
	case windows.AF_INET:
		return netip.AddrFrom4((*windows.RawSockaddrInet4)(unsafe.Pointer(s)).Addr), true
	case windows.AF_INET6:
		return netip.AddrFrom16((*windows.RawSockaddrInet6)(unsafe.Pointer(s)).Addr), true
	}
	return netip.Addr{}, false
}
