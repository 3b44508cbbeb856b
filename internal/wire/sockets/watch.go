package sockets

import (
	"net"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// A watched connection ends within Noticed when the other side falls silent, as when its cable is pulled: the system asks an idle one after askAfter, and
// again every askEvery, askTimes in all; and one on which something was sent waits no longer for the acknowledgement, where the system can be told so.
const (
	askAfter = 4 * time.Second
	askEvery = 2 * time.Second
	askTimes = 2
	Noticed  = askAfter + askTimes*askEvery
)

// ends are the two addresses of a TCP connection.
type ends struct{ local, remote string }

// Watch has the system watch a TCP connection, dialled or accepted. Others it leaves as they are. It costs two packets without content every askAfter while
// nothing else passes.
func (s *Sockets) Watch(local, remote ma.Multiaddr) error {
	from, err := manet.ToNetAddr(local)
	if err != nil {
		return nil // no address of a socket: a relay's
	}
	to, err := manet.ToNetAddr(remote)
	if err != nil {
		return nil
	}
	c, known := s.open.Load(ends{from.String(), to.String()})
	if !known {
		return nil
	}
	t := c.(*net.TCPConn)
	if err := t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: askAfter, Interval: askEvery, Count: askTimes}); err != nil {
		return err
	}
	return boundAcknowledgement(t, Noticed)
}

// remember makes a connection known to Watch, and returns what forgets it.
func (s *Sockets) remember(c net.Conn) (closed func()) {
	of := ends{c.LocalAddr().String(), c.RemoteAddr().String()}
	if under, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = under.NetConn()
	}
	t, ok := c.(*net.TCPConn)
	if !ok {
		return func() {} // it is none of the system's
	}
	s.open.Store(of, t)
	return func() { s.open.CompareAndDelete(of, t) }
}
