package sockets

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// boundAcknowledgement bounds how long sent bytes may stay unacknowledged (RFC 5482).
func boundAcknowledgement(c *net.TCPConn, d time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	return errors.Join(err, failed)
}
