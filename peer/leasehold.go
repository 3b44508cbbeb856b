package peer

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shoal/internal/wire/uplink"
	"shoal/peer/limit"
)

// hold is a lease's Holder for several goroutines, with word of changes. It is judged by two clocks: the process's, and the one of the
// system that goes on while the computer sleeps, whatever becomes of the time of day meanwhile.
type hold struct {
	clock func() moment

	mu      sync.Mutex
	h, boot uplink.Holder
	ended   bool
	changed chan struct{}
}

func newHold(clock func() moment) *hold { return &hold{clock: clock, changed: make(chan struct{})} }

func (h *hold) acked(sent moment, left time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.h.Acked(sent.at, left)
	h.boot.Acked(sent.sinceBoot(), left)
	close(h.changed)
	h.changed = make(chan struct{})
}

// may reports whether a request may begin now.
func (h *hold) may() bool {
	now := h.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.h.May(now.at) && h.boot.May(now.sinceBoot())
}

// endsBefore reports whether the right to fetch ends before a moment of another clock that now shows now. If that
// moment is unknown (zero), it reports whether the right has ended.
func (h *hold) endsBefore(until, now time.Time) bool {
	at := h.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	left := min(h.h.Left(at.at), h.boot.Left(at.sinceBoot()))
	return left <= 0 || !until.IsZero() && until.Sub(now) >= left
}

// lapses is for how long the lease goes on, of which the last third is for what is under way.
func (h *hold) lapses() time.Duration {
	at := h.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(h.h.Lapses(at.at), h.boot.Lapses(at.sinceBoot()))
}

// stop ends the right to fetch.
func (h *hold) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.h.Stop()
	h.boot.Stop()
	h.ended = true
}

func (h *hold) stopped() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

func (h *hold) news() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// errNoLease is what becomes of a request whose lease has run down between its turn and its sending.
var errNoLease error = noLease{}

type noLease struct{}

func (noLease) Error() string     { return "peer: the lease has run down" }
func (noLease) ErrorKind() string { return "no-lease" }

// dial makes connections that send nothing without a lease: a computer may fall asleep while one is being made, and wake up hours later
// in the middle of it.
func (h *hold) dial(dial limit.DialFunc) limit.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !h.may() {
			return nil, errNoLease
		}
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		out := &leasedConn{Conn: c, hold: h}
		if w, ok := c.(interface{ BeforeWrite(func() error) }); ok { // it waits for its turn to send, and the lease may run down meanwhile
			w.BeforeWrite(out.may)
			out.inner = true
		}
		return out, nil
	}
}

// leasedConn is cut when the lease lapses: a host that is slow to answer would have a request of ours under way beside one of the task's
// next holder.
type leasedConn struct {
	net.Conn
	hold  *hold
	inner bool // what it wraps asks may before it sends
	cut   atomic.Bool
	tends atomic.Bool // what is being written begins no request: see Tends

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; nil: nothing was sent yet, or it is closed
}

func (c *leasedConn) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		c.timer = time.AfterFunc(c.hold.lapses(), c.over)
	}
}

// over looks again: the lease may have been renewed.
func (c *leasedConn) over() {
	if left := c.hold.lapses(); left > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.timer != nil {
			c.timer.Reset(left)
		}
		return
	}
	c.cut.Store(true)
	_ = c.SetLinger(0)
	c.Conn.Close()
}

// SetLinger passes on what becomes of a request that the network has not taken when the connection is closed. With 0 the kernel forgets it. Else it
// sends it as soon as the network is back, minutes later, when the next holder is at the host.
func (c *leasedConn) SetLinger(sec int) error {
	if l, ok := c.Conn.(interface{ SetLinger(int) error }); ok {
		return l.SetLinger(sec)
	}
	return nil
}

func (c *leasedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.cut.Load() {
		err = errNoLease
	}
	return n, err
}

// Close implements net.Conn.
func (c *leasedConn) Close() error {
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = nil
	c.mu.Unlock()
	return c.Conn.Close()
}

// Waited passes on how long the connection has waited for its computer's own limits.
func (c *leasedConn) Waited() time.Duration {
	if w, ok := c.Conn.(interface{ Waited() time.Duration }); ok {
		return w.Waited()
	}
	return 0
}

// ConnectTime passes on how long the handshake took; 0: the connection does not know.
func (c *leasedConn) ConnectTime() time.Duration {
	if t, ok := c.Conn.(interface{ ConnectTime() time.Duration }); ok {
		return t.ConnectTime()
	}
	return 0
}

func (c *leasedConn) Write(b []byte) (int, error) {
	c.watch()
	if !c.inner {
		if err := c.may(); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(b)
	if err != nil && c.cut.Load() {
		err = errNoLease
	}
	return n, err
}

// Tends says whether what is written from now on only tends what is under way, as HTTP/2 has to while it receives: that may go on until the lease lapses.
func (c *leasedConn) Tends(is bool) { c.tends.Store(is) }

// may is asked as late as can be: a computer that falls asleep behind it sends when it wakes up.
func (c *leasedConn) may() error {
	if c.hold.may() || c.tends.Load() && c.hold.lapses() > 0 {
		return nil
	}
	return errNoLease
}
