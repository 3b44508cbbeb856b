package main

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Bounds of the connections to the operator's page, which everyone may open who reaches its address. Those of this machine count among all of them only: a
// proxy has all its clients' connections.
const (
	maxPageConns = 512
	maxPageFrom  = 128 // of one address; of IPv6 a /64
	pageSayEvery = time.Minute
)

// boundedListener closes connections beyond the bounds at once, so that one address cannot keep others out. It is safe for concurrent use.
type boundedListener struct {
	net.Listener
	log *slog.Logger

	mu   sync.Mutex
	all  int
	from map[netip.Addr]int
	said time.Time // when it last said that it refuses some
}

func bounded(l net.Listener, log *slog.Logger) *boundedListener {
	return &boundedListener{Listener: l, log: log, from: map[netip.Addr]int{}}
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		a := prefixOf(c.RemoteAddr())
		if l.take(a) {
			return &boundedConn{Conn: c, end: sync.OnceFunc(func() { l.give(a) })}, nil
		}
		c.Close()
	}
}

// take counts a connection, if it is within the bounds.
func (l *boundedListener) take(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= maxPageConns || l.from[a] >= maxPageFrom && !a.IsLoopback() {
		if now := time.Now(); now.Sub(l.said) >= pageSayEvery {
			l.said = now
			l.log.Warn("connections to the page are refused: too many are open", "from", a, "of_it", l.from[a], "open", l.all)
		}
		return false
	}
	l.all++
	l.from[a]++
	return true
}

func (l *boundedListener) give(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.from[a]--; l.from[a] <= 0 {
		delete(l.from, a)
	}
}

// prefixOf is what counts as one address.
func prefixOf(at net.Addr) netip.Addr {
	t, ok := at.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	a := t.AddrPort().Addr().Unmap().WithZone("")
	if a.Is6() && !a.IsLoopback() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// boundedConn gives its place back when it is closed.
type boundedConn struct {
	net.Conn
	end func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.end()
	return c.Conn.Close()
}
