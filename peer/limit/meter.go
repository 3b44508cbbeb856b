package limit

import (
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// What a segment of a full-sized packet carries beside its payload, so that a limit holds for what a router counts.
const (
	segment  = 1448
	overhead = 52 // IPv4 and TCP headers with time stamps
)

// The bucket of a rate holds what passes in burstTime, a fiftieth of the 10 s over which a limit holds. So a busy
// machine makes up for what it could not read or write in time. Single reads and writes are smaller, so that
// connections take turns.
const (
	burstTime  = 200 * time.Millisecond
	leastBurst = 32 << 10
	turn       = 8 << 10
)

// Meter paces and counts what connections carry. All connections of an agent share one meter. A part of a meter keeps to rates of its own
// and to those of the whole, and counts for both. It is safe for concurrent use.
type Meter struct {
	whole          *Meter // nil: this is no part
	down, up       *rate.Limiter
	received, sent atomic.Int64
	usage          *Usage

	mu   sync.Mutex // guards open
	open map[*metered]struct{}
}

// NewMeter returns a meter without limits. usage may be nil.
func NewMeter(u *Usage) *Meter {
	return &Meter{down: rate.NewLimiter(rate.Inf, leastBurst), up: rate.NewLimiter(rate.Inf, leastBurst), usage: u, open: map[*metered]struct{}{}}
}

// Part returns a meter without limits of its own for a part of the connections. usage may be nil.
func (m *Meter) Part(u *Usage) *Meter {
	p := NewMeter(u)
	p.whole = m
	return p
}

// SetRates sets the limits in KiB a second. Zero means no limit.
func (m *Meter) SetRates(down, up int) {
	set := func(l *rate.Limiter, kib int) {
		r := rate.Inf
		if kib > 0 {
			r = rate.Limit(kib) * 1024
		}
		if l.Limit() != r {
			l.SetBurst(max(leastBurst, int(int64(kib)<<10*int64(burstTime)/int64(time.Second))))
			l.SetLimit(r)
		}
	}
	set(m.down, down)
	set(m.up, up)
}

// Rates returns the limits in KiB a second; 0: none.
func (m *Meter) Rates() (down, up int) {
	kib := func(l *rate.Limiter) int {
		if l.Limit() == rate.Inf {
			return 0
		}
		return int(l.Limit() / 1024)
	}
	return kib(m.down), kib(m.up)
}

// Totals returns the bytes received and sent so far, packet headers included.
func (m *Meter) Totals() (received, sent int64) { return m.received.Load(), m.sent.Load() }

// Count counts bytes of QUIC packets. For sent bytes it waits until the next packet may go. For received bytes it
// does not wait, since they have arrived; reads over TCP pay for them.
func (m *Meter) Count(received, sent int) {
	m.note(received, sent)
	if d := m.owe(received, sent); d > 0 {
		time.Sleep(min(d, maxOwed))
	}
}

// note counts bytes.
func (m *Meter) note(received, sent int) {
	for ; m != nil; m = m.whole {
		m.received.Add(int64(received))
		m.sent.Add(int64(sent))
		m.usage.add(received + sent)
	}
}

// owe takes bytes out of the buckets, and returns how long those of what was sent stay in debt.
func (m *Meter) owe(received, sent int) (wait time.Duration) {
	for ; m != nil; m = m.whole {
		owe(m.down, received)
		wait = max(wait, owe(m.up, sent))
	}
	return wait
}

// limited reports whether a rate holds for what is received, and for what is sent.
func (m *Meter) limited() (down, up bool) {
	for ; m != nil; m = m.whole {
		down = down || m.down.Limit() != rate.Inf
		up = up || m.up.Limit() != rate.Inf
	}
	return down, up
}

// maxOwed bounds the wait of one QUIC write, which cannot be interrupted.
const maxOwed = 5 * time.Second

// owe takes bytes out of a bucket, which may go below zero, and returns how long the bucket stays in debt.
func owe(l *rate.Limiter, n int) (wait time.Duration) {
	for n > 0 && l.Limit() != rate.Inf {
		part := min(n, l.Burst())
		if d := l.ReserveN(time.Now(), part).Delay(); d < math.MaxInt64 {
			wait = d
		}
		n -= part
	}
	return wait
}

// acks returns the size of the acknowledgements for n bytes of payload: one empty packet for every two full ones.
func acks(n int) int { return (n + 2*segment - 1) / (2 * segment) * overhead }

// cost returns the bytes that n bytes of payload take on the network.
func cost(n int) int { return n + (n+segment-1)/segment*overhead }

// Wrap returns a connection that counts its bytes and keeps to the rates.
func (m *Meter) Wrap(c net.Conn) net.Conn {
	out := &metered{Conn: c, m: m, closed: make(chan struct{})}
	m.mu.Lock()
	m.open[out] = struct{}{}
	m.mu.Unlock()
	return out
}

// Cut closes the connections to addresses that are picked, and returns how many there were. One that goes through a proxy is to the address behind it.
func (m *Meter) Cut(pick func(netip.Addr) bool) (n int) {
	m.mu.Lock()
	var out []*metered
	for c := range m.open {
		if at, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil && pick(at.Addr().Unmap()) {
			out = append(out, c)
		}
	}
	m.mu.Unlock()
	for _, c := range out {
		c.Close()
	}
	return len(out)
}

// Near reports whether an address is this computer's or a private network's: connections to it go through no proxy.
func Near(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast()
}

type metered struct {
	net.Conn
	m      *Meter
	closed chan struct{} // by Close; it ends waits
	once   sync.Once
	asks   func() error // see BeforeWrite; nil: nothing
	waited atomic.Int64 // nanoseconds, for its own limits

	mu    sync.Mutex // guards read and write
	read  due
	write due
}

// due is a deadline. It is for the other side: what the connection waits for its own limits puts it off.
type due struct {
	at  time.Time     // zero: there is none
	put time.Duration // by which it was put off
}

// mostPutOff bounds by how much a deadline is put off: a limit of a few KiB a second must not have one answer hold a connection for an hour.
const mostPutOff = 2 * time.Minute

// SetDeadline, SetReadDeadline and SetWriteDeadline implement net.Conn.
func (c *metered) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read, c.write = due{at: t}, due{at: t}
	return c.Conn.SetDeadline(t)
}

func (c *metered) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = due{at: t}
	return c.Conn.SetReadDeadline(t)
}

func (c *metered) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = due{at: t}
	return c.Conn.SetWriteDeadline(t)
}

// putOff puts the deadlines off that had not passed when a wait for a limit began.
func (c *metered) putOff(began time.Time) {
	d := time.Since(began)
	c.waited.Add(int64(d))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range []struct {
		of  *due
		set func(time.Time) error
	}{{&c.read, c.Conn.SetReadDeadline}, {&c.write, c.Conn.SetWriteDeadline}} {
		if more := min(d, mostPutOff-x.of.put); more > 0 && x.of.at.After(began) {
			x.of.at, x.of.put = x.of.at.Add(more), x.of.put+more
			_ = x.set(x.of.at) // a connection that is closed fails at the next read or write
		}
	}
}

// Waited is how long the connection has waited for its own limits.
func (c *metered) Waited() time.Duration { return time.Duration(c.waited.Load()) }

// SetLinger is that of the connection beneath, if it has one.
func (c *metered) SetLinger(sec int) error { return linger(c.Conn, sec) }

// BeforeWrite has f asked right before the first byte of each Write is sent, behind the wait for its turn. An error ends the Write, and nothing
// of it is sent. It is called before the connection is used.
func (c *metered) BeforeWrite(f func() error) { c.asks = f }

// ConnectTime returns how long the handshake took, or 0 if the underlying connection does not know.
func (c *metered) ConnectTime() time.Duration {
	if t, ok := c.Conn.(interface{ ConnectTime() time.Duration }); ok {
		return t.ConnectTime()
	}
	return 0
}

// Read waits after it has read. The following bytes wait in the network, where TCP slows the sender down.
func (c *metered) Read(b []byte) (int, error) {
	if down, _ := c.m.limited(); down {
		b = b[:min(len(b), turn)]
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		k, back := cost(n), acks(n)
		c.m.note(k, back)
		c.m.owe(0, back)
		if c.payDown(k) != nil && err == nil { // closed meanwhile; the next read reports it too
			return n, nil
		}
	}
	return n, err
}

// Write waits before each part.
func (c *metered) Write(b []byte) (n int, err error) {
	for {
		part := b[n:]
		if _, up := c.m.limited(); up {
			part = part[:min(len(part), turn)]
		}
		k := cost(len(part))
		if err := c.payUp(k); err != nil {
			return n, err
		}
		if n == 0 && c.asks != nil {
			if err := c.asks(); err != nil {
				return n, err
			}
		}
		w, err := c.Conn.Write(part)
		n += w
		back := acks(w)
		c.m.note(back, k)
		c.m.owe(back, 0)
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

func (c *metered) payDown(n int) error {
	for m := c.m; m != nil; m = m.whole {
		if err := c.pay(m.down, n); err != nil {
			return err
		}
	}
	return nil
}

func (c *metered) payUp(n int) error {
	for m := c.m; m != nil; m = m.whole {
		if err := c.pay(m.up, n); err != nil {
			return err
		}
	}
	return nil
}

func (c *metered) pay(l *rate.Limiter, n int) error {
	for n > 0 && l.Limit() != rate.Inf {
		part := min(n, l.Burst())
		r := l.ReserveN(time.Now(), part)
		if d := r.Delay(); d > 0 && d < math.MaxInt64 {
			t, began := time.NewTimer(d), time.Now()
			select {
			case <-t.C:
				c.putOff(began)
			case <-c.closed:
				t.Stop()
				r.Cancel()
				return net.ErrClosed
			}
		}
		n -= part
	}
	return nil
}

func (c *metered) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.m.mu.Lock()
		delete(c.m.open, c)
		c.m.mu.Unlock()
	})
	return c.Conn.Close()
}
