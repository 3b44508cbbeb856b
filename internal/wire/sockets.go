package wire

import (
	"context"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Every socket of a node is opened here, so that whatever a limit wants holds for all: those that it dials, those that it accepts, from
// the first answer to a stranger's first packet on, and QUIC's. The system's keep-alives are off: the multiplexer has its own.

// sockets is libp2p's TCP, listening on sockets of ours.
type sockets struct {
	*tcp.TcpTransport
	node *Node
	up   transport.Upgrader
}

// Listen opens a port. Accepted connections inherit the listening socket's options where the system does so, and get them again where not.
func (s sockets) Listen(laddr ma.Multiaddr) (transport.Listener, error) {
	network, addr, err := manet.DialArgs(laddr)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: s.node.cfg.Socket, KeepAlive: -1}
	lc.SetMultipathTCP(false) // its sockets do not take every option
	l, err := lc.Listen(s.node.ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ml, err := manet.WrapNetListener(listener{l, s.node})
	if err != nil {
		l.Close()
		return nil, err
	}
	return s.up.UpgradeGatedMaListener(s, s.up.GateMaListener(ml)), nil
}

type listener struct {
	net.Listener
	node *Node
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if t, ok := c.(*net.TCPConn); ok && l.node.cfg.Socket != nil {
		if raw, err := t.SyscallConn(); err == nil {
			_ = l.node.cfg.Socket(familyOf(c.LocalAddr()), c.RemoteAddr().String(), raw) // where it fails it has been inherited
		}
	}
	return l.node.opened(c), nil
}

// dialer opens TCP connections for libp2p.
func (n *Node) dialer(raddr ma.Multiaddr) (tcp.ContextDialer, error) {
	if n.cfg.Dialer != nil {
		d, err := n.cfg.Dialer(raddr)
		return dialer{d, n}, err
	}
	d := &net.Dialer{Control: n.cfg.Socket, KeepAlive: -1}
	d.SetMultipathTCP(false)
	return dialer{d, n}, nil
}

type dialer struct {
	tcp.ContextDialer
	node *Node
}

func (d dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.ContextDialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return d.node.opened(c), nil
}

// opened is a TCP connection as libp2p gets it: counted, accounted for, and without the methods by which it would turn keep-alives on.
func (n *Node) opened(c net.Conn) net.Conn {
	if l, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = l.SetLinger(0) // so that the same two ports can meet again at once
	}
	c = countedConn{c, n.packets}
	if n.cfg.Wrap != nil {
		c = n.cfg.Wrap(c)
	}
	return plainConn{c}
}

type plainConn struct{ net.Conn }

func familyOf(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok && t.IP.To4() == nil {
		return "tcp6"
	}
	return "tcp4"
}

// Keeping connections alive: through routers that forget a silent one after some minutes, with few packets.
const (
	keepAlive = time.Minute
	rttEvery  = time.Hour // of the multiplexer, which sizes its windows by it
)
