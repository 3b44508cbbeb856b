package sockets

import (
	"context"
	"net"
	"sync/atomic"

	"golang.org/x/net/ipv4"
)

// packets counts what a volunteer's router sees of a node.
type packets struct{ in, out atomic.Int64 }

// countedConn counts what passes a TCP socket.
type countedConn struct {
	net.Conn
	packets *packets
	closed  func() // may be nil
}

// NetConn is the connection below, as crypto/tls names it.
func (c countedConn) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c countedConn) Close() error {
	if c.closed != nil {
		c.closed()
	}
	return c.Conn.Close()
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

// What QUIC's packets are made of: about what it sends in one (one write may hold several that the system takes apart), and what IPv4 and
// UDP put before it.
const (
	maxSegment = 1280
	udpHeaders = 28
)

// ListenUDP opens a socket for QUIC that counts, and is marked as the others.
func (s *Sockets) ListenUDP(network string, laddr *net.UDPAddr) (net.PacketConn, error) {
	lc := net.ListenConfig{Control: s.cfg.Control}
	p, err := lc.ListenPacket(context.Background(), network, laddr.String())
	if err != nil {
		return nil, err
	}
	c := p.(*net.UDPConn)
	return &countedUDP{UDPConn: c, batch: ipv4.NewPacketConn(c), packets: &s.packets, count: s.cfg.Count, mark: markOf(c)}, nil
}

// countedUDP is a socket as quic-go likes it best: it reads by ReadBatch and writes by WriteMsgUDP where it finds them.
type countedUDP struct {
	*net.UDPConn
	batch   *ipv4.PacketConn
	packets *packets
	count   func(received, sent int) // may be nil
	mark    byte                     // of the socket: the upper six bits of the traffic class
}

func (c *countedUDP) received(packets, bytes int) {
	c.packets.in.Add(int64(packets))
	if c.count != nil {
		c.count(bytes+packets*udpHeaders, 0)
	}
}

func (c *countedUDP) sent(bytes int) {
	k := max(1, (bytes+maxSegment-1)/maxSegment)
	c.packets.out.Add(int64(k))
	if c.count != nil {
		c.count(0, bytes+k*udpHeaders)
	}
}

func (c *countedUDP) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	n, err := c.batch.ReadBatch(ms, flags)
	if n > 0 {
		bytes := 0
		for i := range ms[:n] {
			bytes += ms[i].N
		}
		c.received(n, bytes)
	}
	return n, err
}

func (c *countedUDP) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	if n, oobn, flags, addr, err = c.UDPConn.ReadMsgUDP(b, oob); err == nil {
		c.received(1, n)
	}
	return n, oobn, flags, addr, err
}

// WriteMsgUDP keeps the socket's mark in packets for which quic-go sets the congestion bits, which are of the same octet.
func (c *countedUDP) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	if c.mark != 0 {
		keepMark(oob, c.mark)
	}
	if n, oobn, err = c.UDPConn.WriteMsgUDP(b, oob, addr); err == nil {
		c.sent(n)
	}
	return n, oobn, err
}

func (c *countedUDP) ReadFrom(b []byte) (int, net.Addr, error) {
	n, a, err := c.UDPConn.ReadFrom(b)
	if err == nil {
		c.received(1, n)
	}
	return n, a, err
}

func (c *countedUDP) WriteTo(b []byte, a net.Addr) (int, error) {
	n, err := c.UDPConn.WriteTo(b, a)
	if err == nil {
		c.sent(n)
	}
	return n, err
}
