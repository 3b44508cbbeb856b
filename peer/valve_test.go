package peer

import (
	"context"
	"net"
	"sync"

	"shoal/peer/limit"
)

// valve lets so many answers of Web hosts through and holds the next, until it is opened or the connection is closed: a crawl is then in
// its middle for as long as a test wants, whatever the machine's speed.
type valve struct {
	mu      sync.Mutex
	left    int
	waiting int
	opened  chan struct{}
	next    *valve // that answers have to pass once this one is open; nil: none
}

func newValve(answers int) *valve { return &valve{left: answers, opened: make(chan struct{})} }

// on puts the valve before all that an agent dials.
func (v *valve) on(c *Config) {
	dial := c.Dial
	c.Dial = limit.DialFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &valved{Conn: conn, v: v, closed: make(chan struct{})}, nil
	})
}

func (v *valve) open() { close(v.opened) }

// blocked reports whether an answer is held.
func (v *valve) blocked() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.waiting > 0
}

type valved struct {
	net.Conn
	v      *valve
	asked  bool
	once   sync.Once
	closed chan struct{}
}

func (c *valved) Write(b []byte) (int, error) {
	c.asked = true
	return c.Conn.Write(b)
}

func (c *valved) Read(b []byte) (int, error) {
	if c.asked {
		c.asked = false
		if err := c.v.pass(c.closed); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(b)
}

func (v *valve) pass(closed <-chan struct{}) error {
	select {
	case <-v.opened:
		if v.next != nil {
			return v.next.pass(closed)
		}
		return nil
	default:
	}
	v.mu.Lock()
	v.left--
	hold := v.left < 0
	if hold {
		v.waiting++
	}
	v.mu.Unlock()
	if !hold {
		return nil
	}
	defer func() {
		v.mu.Lock()
		v.waiting--
		v.mu.Unlock()
	}()
	select {
	case <-v.opened:
		if v.next != nil {
			return v.next.pass(closed)
		}
		return nil
	case <-closed:
		return net.ErrClosed
	}
}

func (c *valved) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
