package pglab

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a TCP address at which a server answers whose own one is a file. Connections through it can be slowed, and broken.
type Proxy struct {
	listener net.Listener
	socket   string
	delay    atomic.Int64 // nanoseconds that each piece takes

	mu   sync.Mutex
	open map[net.Conn]bool
}

// StartProxy listens on loopback until the test ends.
func StartProxy(t testing.TB, socket string) *Proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, socket: socket, open: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.Reset()
		wg.Wait()
	})
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Slow has each piece that is sent take that long from now on; 0: none.
func (p *Proxy) Slow(d time.Duration) { p.delay.Store(int64(d)) }

// Reset breaks all connections.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the other side sees a reset
		}
		_ = c.Close()
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := new(net.Dialer).DialContext(context.Background(), "unix", p.socket)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.open[client], p.open[server] = true, true
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		wg.Go(func() {
			p.copy(way[1], way[0])
			_ = client.Close()
			_ = server.Close()
		})
	}
	wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
	delete(p.open, server)
}

func (p *Proxy) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if d := time.Duration(p.delay.Load()); d > 0 {
			time.Sleep(d)
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
