//go:build unix

package sockets

import (
	"encoding/binary"
	"net"

	"golang.org/x/sys/unix"
)

// dscpMask are the bits of the traffic class that are no congestion bits (RFC 2474, RFC 3168).
const dscpMask = 0xfc

// markOf is how a socket's packets are marked.
func markOf(c *net.UDPConn) byte {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	var four, six int
	_ = raw.Control(func(fd uintptr) { // one of the two may not be of this socket's family
		four, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS)
		six, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS)
	})
	return byte(max(four, 0)|max(six, 0)) & dscpMask
}

// keepMark adds the mark to what control messages say of the traffic class, in place.
func keepMark(oob []byte, mark byte) {
	for len(oob) >= unix.CmsgLen(0) {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return
		}
		if h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS || h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_TCLASS {
			switch {
			case len(data) >= 4:
				binary.NativeEndian.PutUint32(data, binary.NativeEndian.Uint32(data)|uint32(mark))
			case len(data) > 0:
				data[0] |= mark
			}
		}
		oob = rest
	}
}
