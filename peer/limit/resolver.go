package limit

import (
	"context"
	"net"
	"syscall"
)

// ipUDP is the size of the IP and UDP headers of a DNS query.
const ipUDP = 28

// Resolver returns a resolver whose sockets control prepares, and which counts its traffic and keeps to the rates. On
// Windows and macOS the system resolves names for its programs; that traffic is outside the meter.
func (m *Meter) Resolver(control func(network, address string, c syscall.RawConn) error) *net.Resolver {
	d := net.Dialer{Control: control}
	return &net.Resolver{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if u, ok := c.(*net.UDPConn); ok {
			return &meteredUDP{u, m}, nil
		}
		return m.Wrap(c), nil
	}}
}

// meteredUDP stays a packet connection for its users.
type meteredUDP struct {
	*net.UDPConn
	m *Meter
}

func (c *meteredUDP) Read(b []byte) (int, error) {
	n, err := c.UDPConn.Read(b)
	if err == nil {
		c.m.Count(n+ipUDP, 0)
	}
	return n, err
}

func (c *meteredUDP) Write(b []byte) (int, error) {
	n, err := c.UDPConn.Write(b)
	if err == nil {
		c.m.Count(0, n+ipUDP)
	}
	return n, err
}
