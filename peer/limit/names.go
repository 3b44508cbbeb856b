package limit

import (
	"context"
	"net"
	"syscall"
)

// ipUDP is what a question to a name server carries beside its bytes.
const ipUDP = 28

// Resolver asks name servers by sockets that control has prepared, and that count and keep the rates as all others. Where the system looks
// names up for its programs (Windows, macOS) that is traffic of its own.
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

// meteredUDP is still a packet connection to whoever asks.
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
