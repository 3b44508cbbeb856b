package postgres

import (
	"context"
	"net"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A server whose machine has lost its power says nothing more, not even that its connections have ended. What waits for it has no deadline, where it must not be
// given up; so the system asks, and ends a connection of which nobody answers. Without that it does so after a quarter of an hour, or never. A server that is
// slow, or whose process is paused, is not taken for gone: its system answers.
const (
	silentMost  = 20 * time.Second // that nothing sent is acknowledged, and no question whether the other side is there
	askAfter    = 5 * time.Second  // of silence
	askEvery    = 3 * time.Second
	askTimes    = 5
	connectMost = 10 * time.Second // to one server, unless the URL says connect_timeout
)

// dialer connects to servers.
func dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: askAfter, Interval: askEvery, Count: askTimes},
		Control: func(network, _ string, c syscall.RawConn) error {
			if network == "unix" {
				return nil
			}
			return boundSilence(c, silentMost)
		},
	}
}

// connectBy has connections end that a silent server leaves behind.
func connectBy(c *pgconn.Config) {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectMost
	}
	d := dialer()
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return d.DialContext(ctx, network, addr)
	}
}
