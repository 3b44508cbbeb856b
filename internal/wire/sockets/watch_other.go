//go:build !linux

package sockets

import (
	"net"
	"time"
)

// boundAcknowledgement does nothing: the system's own bound holds.
func boundAcknowledgement(*net.TCPConn, time.Duration) error { return nil }
