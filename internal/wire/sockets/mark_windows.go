package sockets

import "net"

// Windows ignores the traffic class that a program sets on a socket (it wants a policy of the administrator's), so there is nothing to keep.

func markOf(*net.UDPConn) byte { return 0 }

func keepMark([]byte, byte) {}
