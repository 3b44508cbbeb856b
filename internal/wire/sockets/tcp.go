// Package sockets opens every socket of a node, so that a limit applies to all of them: dialled ones, accepted ones,
// and QUIC's. It marks them, passes TCP connections to the code that paces them, and counts packets.
//
// It does not know what is said over a socket, or who may say it.
//
// Invariants: a socket has its options before the first byte passes; the system's keep-alives are off, since the
// multiplexer has its own, but for a connection that Watch is told of.
package sockets

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Config says what is done to sockets. Zero fields do nothing.
type Config struct {
	Control     func(network, address string, c syscall.RawConn) error // sets options of each socket before it is used
	Wrap        func(net.Conn) net.Conn                                // accounts for and paces each TCP connection
	Count       func(received, sent int)                               // is told the bytes of QUIC's packets, which are not paced
	Dialer      tcp.DialerForAddr                                      // the only TCP dialler if set
	DialTimeout time.Duration                                          // of TCP; required
	Accepted    func(net.Conn) (closed func())                         // sees each accepted TCP connection before anything is read from it; closed is called when it closes
}

// Sockets opens them. It is safe for concurrent use.
type Sockets struct {
	cfg     Config
	packets packets
	open    sync.Map // *net.TCPConn by ends
}

// New opens nothing yet.
func New(cfg Config) *Sockets { return &Sockets{cfg: cfg} }

// Packets are how many were received and sent. QUIC's are packets; of TCP each read and write of a socket counts as one, keep-alives and
// acknowledgements of the system do not.
func (s *Sockets) Packets() (received, sent *atomic.Int64) { return &s.packets.in, &s.packets.out }

// TCP is libp2p's TCP on these sockets.
func (s *Sockets) TCP(t *tcp.TcpTransport, up transport.Upgrader, resources network.ResourceManager) transport.Transport {
	return tcpTransport{t, s, up, resources}
}

type tcpTransport struct {
	*tcp.TcpTransport
	sockets   *Sockets
	up        transport.Upgrader
	resources network.ResourceManager
}

// Dial connects to a peer.
func (t tcpTransport) Dial(ctx context.Context, raddr ma.Multiaddr, p peer.ID) (transport.CapableConn, error) {
	return t.DialWithUpdates(ctx, raddr, p, nil)
}

// DialWithUpdates is Dial that tells when the address has answered.
func (t tcpTransport) DialWithUpdates(ctx context.Context, raddr ma.Multiaddr, p peer.ID, updates chan<- transport.DialUpdate) (transport.CapableConn, error) {
	scope, err := t.resources.OpenConnection(network.DirOutbound, true, raddr)
	if err != nil {
		return nil, err
	}
	c, err := t.open(ctx, raddr, p, scope)
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
	return t.up.Upgrade(ctx, t, c, dir, p, scope)
}

func (t tcpTransport) open(ctx context.Context, raddr ma.Multiaddr, p peer.ID, scope network.ConnManagementScope) (manet.Conn, error) {
	if err := scope.SetPeer(p); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.sockets.cfg.DialTimeout)
	defer cancel()
	family, addr, err := manet.DialArgs(raddr)
	if err != nil {
		return nil, err
	}
	d, err := t.sockets.dialer(raddr)
	if err != nil {
		return nil, err
	}
	c, err := d.DialContext(ctx, family, addr)
	if err != nil {
		return nil, err
	}
	return manet.WrapNetConn(t.sockets.opened(c, t.sockets.remember(c)))
}

// Listen opens a port. Accepted connections inherit the listening socket's options where the system does so, and get them again where not.
func (t tcpTransport) Listen(laddr ma.Multiaddr) (transport.Listener, error) {
	family, addr, err := manet.DialArgs(laddr)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: t.sockets.cfg.Control, KeepAlive: -1}
	lc.SetMultipathTCP(false)                               // its sockets do not take every option
	l, err := lc.Listen(context.Background(), family, addr) // nothing is looked up: addr is an address
	if err != nil {
		return nil, err
	}
	ml, err := manet.WrapNetListener(listener{l, t.sockets})
	if err != nil {
		l.Close()
		return nil, err
	}
	return t.up.UpgradeGatedMaListener(t, t.up.GateMaListener(ml)), nil
}

type listener struct {
	net.Listener
	sockets *Sockets
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if t, ok := c.(*net.TCPConn); ok && l.sockets.cfg.Control != nil {
		if raw, err := t.SyscallConn(); err == nil {
			_ = l.sockets.cfg.Control(familyOf(c.LocalAddr()), c.RemoteAddr().String(), raw) // where it fails it has been inherited
		}
	}
	closed := l.sockets.remember(c)
	if l.sockets.cfg.Accepted != nil {
		forget, seen := closed, l.sockets.cfg.Accepted(c)
		closed = func() {
			forget()
			if seen != nil {
				seen()
			}
		}
	}
	return l.sockets.opened(c, closed), nil
}

// dialer opens TCP connections for libp2p.
func (s *Sockets) dialer(raddr ma.Multiaddr) (tcp.ContextDialer, error) {
	if s.cfg.Dialer != nil {
		return s.cfg.Dialer(raddr)
	}
	d := &net.Dialer{Control: s.cfg.Control, KeepAlive: -1}
	d.SetMultipathTCP(false)
	return d, nil
}

// opened is a TCP connection as libp2p gets it: counted and accounted for.
func (s *Sockets) opened(c net.Conn, closed func()) net.Conn {
	if l, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = l.SetLinger(0) // so that the same two ports can meet again at once
	}
	c = countedConn{c, &s.packets, closed}
	if s.cfg.Wrap != nil {
		c = s.cfg.Wrap(c)
	}
	return c
}

func familyOf(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok && t.IP.To4() == nil {
		return "tcp6"
	}
	return "tcp4"
}
