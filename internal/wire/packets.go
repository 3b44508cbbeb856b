package wire

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	manet "github.com/multiformats/go-multiaddr/net"
	"golang.org/x/net/ipv4"
)

// packets counts what a volunteer's router sees of a node.
type packets struct{ in, out atomic.Int64 }

// countedUpgrader counts what passes TCP sockets, before it is secured.
type countedUpgrader struct {
	transport.Upgrader
	packets *packets
}

func (u countedUpgrader) Upgrade(ctx context.Context, t transport.Transport, c manet.Conn, dir network.Direction, p peer.ID, scope network.ConnManagementScope) (transport.CapableConn, error) {
	return u.Upgrader.Upgrade(ctx, t, countedConn{c, u.packets}, dir, p, scope)
}

func (u countedUpgrader) UpgradeGatedMaListener(t transport.Transport, l transport.GatedMaListener) transport.Listener {
	return u.Upgrader.UpgradeGatedMaListener(t, countedListener{l, u.packets})
}

type countedListener struct {
	transport.GatedMaListener
	packets *packets
}

func (l countedListener) Accept() (manet.Conn, network.ConnManagementScope, error) {
	c, scope, err := l.GatedMaListener.Accept()
	if err != nil {
		return nil, nil, err
	}
	return countedConn{c, l.packets}, scope, nil
}

type countedConn struct {
	manet.Conn
	packets *packets
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.packets.in.Add(1)
	}
	return n, err
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.packets.out.Add(1)
	}
	return n, err
}

// maxSegment is about what QUIC sends in a packet; one write may hold several that the system takes apart.
const maxSegment = 1280

// listenUDP opens a socket for QUIC that counts.
func listenUDP(network string, laddr *net.UDPAddr, p *packets) (net.PacketConn, error) {
	c, err := net.ListenUDP(network, laddr)
	if err != nil {
		return nil, err
	}
	return &countedUDP{UDPConn: c, batch: ipv4.NewPacketConn(c), packets: p}, nil
}

// countedUDP is a socket as quic-go likes it best: it reads by ReadBatch and writes by WriteMsgUDP where it finds them.
type countedUDP struct {
	*net.UDPConn
	batch   *ipv4.PacketConn
	packets *packets
}

func (c *countedUDP) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	n, err := c.batch.ReadBatch(ms, flags)
	if n > 0 {
		c.packets.in.Add(int64(n))
	}
	return n, err
}

func (c *countedUDP) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	if n, oobn, flags, addr, err = c.UDPConn.ReadMsgUDP(b, oob); err == nil {
		c.packets.in.Add(1)
	}
	return n, oobn, flags, addr, err
}

func (c *countedUDP) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	if n, oobn, err = c.UDPConn.WriteMsgUDP(b, oob, addr); err == nil {
		c.packets.out.Add(int64((n + maxSegment - 1) / maxSegment))
	}
	return n, oobn, err
}

func (c *countedUDP) ReadFrom(b []byte) (int, net.Addr, error) {
	n, a, err := c.UDPConn.ReadFrom(b)
	if err == nil {
		c.packets.in.Add(1)
	}
	return n, a, err
}

func (c *countedUDP) WriteTo(b []byte, a net.Addr) (int, error) {
	n, err := c.UDPConn.WriteTo(b, a)
	if err == nil {
		c.packets.out.Add(1)
	}
	return n, err
}
