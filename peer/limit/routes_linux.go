package limit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const rtaNextHopID = 30 // RTA_NH_ID of linux/rtnetlink.h

// systemRoutes reads the routing tables of both families, all of them. It returns none if there are more than maxRoutes.
func systemRoutes() ([]route, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	patience := unix.NsecToTimeval(int64(time.Second))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	ask := make([]byte, unix.NLMSG_HDRLEN+unix.SizeofRtMsg) // of any family
	binary.NativeEndian.PutUint32(ask[0:], uint32(len(ask)))
	binary.NativeEndian.PutUint16(ask[4:], unix.RTM_GETROUTE)
	binary.NativeEndian.PutUint16(ask[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if err := unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	var out []route
	room := make([]byte, 64<<10) // the kernel sends no more at a time
	for {
		n, _, err := unix.Recvfrom(fd, room, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}
		msgs, err := syscall.ParseNetlinkMessage(room[:n])
		if err != nil {
			return nil, fmt.Errorf("limit: routes: %w", err)
		}
		for i := range msgs {
			switch msgs[i].Header.Type {
			case unix.NLMSG_DONE:
				return out, nil
			case unix.NLMSG_ERROR:
				return nil, fmt.Errorf("limit: routes: the kernel refuses to tell them")
			case unix.RTM_NEWROUTE:
				if r, ok := routeOf(&msgs[i]); ok {
					out = append(out, r)
				}
			}
		}
		if len(out) > maxRoutes {
			return nil, nil
		}
	}
}

// routeOf reads a route, if packets may go by it: to the Internet, to a network, or to this computer itself.
func routeOf(m *syscall.NetlinkMessage) (route, bool) {
	if len(m.Data) < unix.SizeofRtMsg {
		return route{}, false
	}
	family, bits, kind, flags := m.Data[0], int(m.Data[1]), m.Data[7], binary.NativeEndian.Uint32(m.Data[8:])
	if kind != unix.RTN_UNICAST && kind != unix.RTN_LOCAL || flags&unix.RTM_F_CLONED != 0 {
		return route{}, false
	}
	to := netip.IPv4Unspecified()
	switch family {
	case unix.AF_INET:
	case unix.AF_INET6:
		to = netip.IPv6Unspecified()
	default:
		return route{}, false
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return route{}, false
	}
	way := []byte{kind}
	for _, a := range attrs {
		switch a.Attr.Type &^ unix.NLA_F_NESTED {
		case unix.RTA_DST:
			addr, ok := netip.AddrFromSlice(a.Value)
			if !ok {
				return route{}, false
			}
			to = addr
		case unix.RTA_OIF, unix.RTA_GATEWAY, unix.RTA_VIA, unix.RTA_MULTIPATH, rtaNextHopID:
			way = append(append(way, byte(a.Attr.Type)), a.Value...)
		}
	}
	return route{to: netip.PrefixFrom(to, bits), way: string(way)}, true
}
