package wire

import (
	"context"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Every socket of a node is opened here, so that whatever a limit wants holds for all: those that it dials, those that it accepts, from
// the first answer to a stranger's first packet on, and QUIC's. The system's keep-alives are off: the multiplexer has its own.

// sockets is libp2p's TCP on sockets of ours.
type sockets struct {
	*tcp.TcpTransport
	node      *Node
	up        transport.Upgrader
	resources network.ResourceManager
}

// Dial connects to a peer.
func (s sockets) Dial(ctx context.Context, raddr ma.Multiaddr, p peer.ID) (transport.CapableConn, error) {
	return s.DialWithUpdates(ctx, raddr, p, nil)
}

// DialWithUpdates is Dial that tells when the address has answered.
func (s sockets) DialWithUpdates(ctx context.Context, raddr ma.Multiaddr, p peer.ID, updates chan<- transport.DialUpdate) (transport.CapableConn, error) {
	scope, err := s.resources.OpenConnection(network.DirOutbound, true, raddr)
	if err != nil {
		return nil, err
	}
	c, err := s.open(ctx, raddr, p, scope)
	if err != nil {
		scope.Done()
		return nil, err
	}
	select {
	case updates <- transport.DialUpdate{Kind: transport.UpdateKindHandshakeProgressed, Addr: raddr}:
	default: // it only makes other addresses wait
	}
	dir := network.DirOutbound
	if both, first, _ := network.GetSimultaneousConnect(ctx); both && !first {
		dir = network.DirInbound
	}
	return s.up.Upgrade(ctx, s, c, dir, p, scope)
}

func (s sockets) open(ctx context.Context, raddr ma.Multiaddr, p peer.ID, scope network.ConnManagementScope) (manet.Conn, error) {
	if err := scope.SetPeer(p); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.node.cfg.Patience/2)
	defer cancel()
	family, addr, err := manet.DialArgs(raddr)
	if err != nil {
		return nil, err
	}
	d, err := s.node.dialer(raddr)
	if err != nil {
		return nil, err
	}
	c, err := d.DialContext(ctx, family, addr)
	if err != nil {
		return nil, err
	}
	return manet.WrapNetConn(s.node.opened(c))
}

// Listen opens a port. Accepted connections inherit the listening socket's options where the system does so, and get them again where not.
func (s sockets) Listen(laddr ma.Multiaddr) (transport.Listener, error) {
	family, addr, err := manet.DialArgs(laddr)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: s.node.cfg.Socket, KeepAlive: -1}
	lc.SetMultipathTCP(false) // its sockets do not take every option
	l, err := lc.Listen(s.node.ctx, family, addr)
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
		return n.cfg.Dialer(raddr)
	}
	d := &net.Dialer{Control: n.cfg.Socket, KeepAlive: -1}
	d.SetMultipathTCP(false)
	return d, nil
}

// opened is a TCP connection as libp2p gets it: counted and accounted for.
func (n *Node) opened(c net.Conn) net.Conn {
	if l, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = l.SetLinger(0) // so that the same two ports can meet again at once
	}
	c = countedConn{c, n.packets}
	if n.cfg.Wrap != nil {
		c = n.cfg.Wrap(c)
	}
	return c
}

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
