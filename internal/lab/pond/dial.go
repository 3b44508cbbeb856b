package pond

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// ServedAt returns the address at which the World is served, or the zero AddrPort.
func (w *World) ServedAt() netip.AddrPort {
	if a := w.addr.Load(); a != nil {
		return *a
	}
	return netip.AddrPort{}
}

// Dialer dials with the pond's latency. Pass one to go-libp2p's tcp.WithDialerForAddr:
//
//	tcp.WithDialerForAddr(func(ma.Multiaddr) (tcp.ContextDialer, error) { return world.NodeDialer(port), nil })
type Dialer struct {
	to  func(addr string) (dial string, rtt time.Duration, err error)
	net net.Dialer
}

// DialContext connects after one round-trip time and delays each later round trip on the connection by another.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	to, rtt, err := d.to(addr)
	if err != nil {
		return nil, err
	}
	t := time.NewTimer(rtt)
	defer t.Stop()
	c, err := d.net.DialContext(ctx, network, to)
	if err != nil {
		return nil, err
	}
	select {
	case <-t.C:
		return delay(c, rtt), nil
	case <-ctx.Done():
		c.Close()
		return nil, ctx.Err()
	}
}

// NodeDialer returns a Dialer for connections from the node that listens on selfPort to other nodes. It takes the
// port of a dialled address for the one on which the other node listens.
func (w *World) NodeDialer(selfPort int) *Dialer {
	return &Dialer{to: func(addr string) (string, time.Duration, error) {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return "", 0, fmt.Errorf("pond: dial %q: %w", addr, err)
		}
		n, err := net.LookupPort("tcp", port)
		if err != nil {
			return "", 0, fmt.Errorf("pond: dial %q: %w", addr, err)
		}
		return addr, w.NodeRTT(selfPort, n), nil
	}}
}

// HTTPDialer returns an http.Transport.DialContext for the node that listens on selfPort. It reaches hosts of the
// pond only; other addresses return ErrNotPond.
func (w *World) HTTPDialer(selfPort int) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &Dialer{net: net.Dialer{LocalAddr: w.localOf(selfPort)}, to: func(addr string) (string, time.Duration, error) {
		name, port, err := net.SplitHostPort(addr)
		if err != nil || !strings.HasSuffix(name, Suffix) {
			return "", 0, fmt.Errorf("%w: %q", ErrNotPond, addr)
		}
		i, ok := w.Host(name)
		if !ok {
			return "", 0, fmt.Errorf("%w: %q", ErrNoHost, name)
		}
		served := w.ServedAt()
		if port != "80" && port != "443" || !served.IsValid() {
			return "", 0, fmt.Errorf("%w: %q: only ports 80 and 443 of a pond that is served can be dialled", ErrNotPond, addr)
		}
		return served.String(), w.HostRTT(selfPort, i), nil
	}}
	return d.DialContext
}
