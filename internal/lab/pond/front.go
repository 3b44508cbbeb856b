package pond

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

// helloWait bounds the time until a client's first byte, and the duration of a handshake.
const helloWait = time.Minute

// front is the listener on a Server's only port. It tells TLS from HTTP by the first byte. It finishes the handshakes
// of hosts that behave and passes those connections to the HTTP server; it serves the other TLS connections itself.
type front struct {
	s      *Server
	ready  chan net.Conn
	closed chan struct{}

	mu   sync.Mutex
	open map[net.Conn]struct{} // not handed on; guarded by mu; nil: closed
}

func newFront(s *Server) *front {
	return &front{s: s, ready: make(chan net.Conn), closed: make(chan struct{}), open: map[net.Conn]struct{}{}}
}

// run accepts until the listener is closed. It returns when all its goroutines have ended.
func (f *front) run() error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer f.Close()
	for {
		c, err := f.s.ln.Accept()
		if err != nil {
			var passing net.Error
			if errors.As(err, &passing) && passing.Timeout() {
				continue
			}
			return err
		}
		if !f.hold(c) {
			c.Close()
			return net.ErrClosed
		}
		wg.Go(func() { f.greet(c) })
	}
}

// greet reads the first byte of a connection.
func (f *front) greet(c net.Conn) {
	defer f.drop(c)
	first := make([]byte, 1)
	if c.SetReadDeadline(time.Now().Add(helloWait)) != nil {
		c.Close()
		return
	}
	if _, err := c.Read(first); err != nil || c.SetReadDeadline(time.Time{}) != nil {
		c.Close()
		return
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		c.Close()
		return
	}
	p := &peeked{TCPConn: tcp, first: first}
	if first[0] != recordHandshake {
		f.hand(p)
		return
	}
	f.s.secure(p, f.hand)
}

// hand passes a connection to the HTTP server.
func (f *front) hand(c net.Conn) {
	select {
	case f.ready <- c:
	case <-f.closed:
		c.Close()
	}
}

func (f *front) hold(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		return false
	}
	f.open[c] = struct{}{}
	return true
}

func (f *front) drop(c net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}

// Accept implements net.Listener.
func (f *front) Accept() (net.Conn, error) {
	select {
	case c := <-f.ready:
		return c, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (f *front) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		return net.ErrClosed
	}
	for c := range f.open {
		c.Close()
	}
	f.open = nil
	close(f.closed)
	return f.s.ln.Close()
}

// Addr implements net.Listener.
func (f *front) Addr() net.Addr { return f.s.ln.Addr() }

// peeked is a connection whose first byte was read.
type peeked struct {
	*net.TCPConn
	first []byte
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) > 0 && len(b) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.TCPConn.Read(b)
}

// secure speaks TLS as the named host's mode demands.
func (s *Server) secure(c *peeked, hand func(net.Conn)) {
	g := &gate{Conn: c}
	var host int
	var mode Mode
	var secrets strings.Builder
	t := tls.Server(g, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		i, ok := s.w.Host(h.ServerName)
		if !ok {
			return nil, ErrNoHost
		}
		host, mode = i, s.w.Mode(i)
		if mode.handshake() {
			g.shut = true
			return nil, errTaken
		}
		conf, err := s.w.identity(i, mode)
		if err == nil && mode == Renegotiate {
			conf.KeyLogWriter = &secrets
		}
		return conf, err
	}})
	_ = c.SetDeadline(time.Now().Add(helloWait)) // a closed connection shows below
	err := t.Handshake()
	if g.shut {
		g.shut = false
		defer c.Close()
		s.handshake(mode, c)
		return
	}
	if err != nil || c.SetDeadline(time.Time{}) != nil {
		c.Close()
		return
	}
	switch {
	case mode.http2():
		defer t.Close()
		s.misuse(mode, t, host)
	case mode == Renegotiate:
		defer c.Close()
		s.renegotiate(t, g, &secrets, host)
	default:
		hand(t)
	}
}

// errTaken ends a handshake in crypto/tls, so that the pond can continue it by itself.
var errTaken = errors.New("pond: the handshake is ours from here on")

// gate is a connection that can drop what crypto/tls writes, and keeps what it wrote first.
type gate struct {
	net.Conn
	shut bool
	said []byte
}

func (g *gate) Write(b []byte) (int, error) {
	if g.shut {
		return len(b), nil
	}
	if len(g.said) < 256 {
		g.said = append(g.said, b[:min(len(b), 256)]...)
	}
	return g.Conn.Write(b)
}
