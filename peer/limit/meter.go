package limit

import (
	"context"
	"math"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// What a segment of a full-sized packet carries beside its payload, so that a limit holds for what a router counts.
const (
	segment  = 1448
	overhead = 52 // IPv4 and TCP headers with time stamps
)

// The bucket of a rate holds what it lets through in burstTime, a fiftieth of the 10 s over which a limit holds: what a busy machine did not come
// to read or write meanwhile is made up for. What is read or written at a time is smaller: connections take turns.
const (
	burstTime  = 200 * time.Millisecond
	leastBurst = 32 << 10
	turn       = 8 << 10
)

// Meter paces and counts what connections carry. One meter is shared by all of an agent's. It is safe for concurrent use.
type Meter struct {
	down, up       *rate.Limiter
	received, sent atomic.Int64
	usage          *Usage
}

// NewMeter makes a meter without limits. usage may be nil.
func NewMeter(u *Usage) *Meter {
	return &Meter{down: rate.NewLimiter(rate.Inf, leastBurst), up: rate.NewLimiter(rate.Inf, leastBurst), usage: u}
}

// SetRates sets the limits in KiB a second; 0: none.
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

// Totals are the bytes received and sent so far, packet headers included.
func (m *Meter) Totals() (received, sent int64) { return m.received.Load(), m.sent.Load() }

// Count counts bytes of QUIC, whose packets are all in what it is told. Sent ones wait for their turn here, after which the next may go;
// for received ones nobody waits, they have come: what is read by TCP does.
func (m *Meter) Count(received, sent int) {
	m.received.Add(int64(received))
	m.sent.Add(int64(sent))
	m.usage.add(received + sent)
	owe(m.down, received)
	if d := owe(m.up, sent); d > 0 {
		time.Sleep(min(d, maxOwed))
	}
}

// maxOwed bounds the wait of one write of QUIC, which nothing interrupts.
const maxOwed = 5 * time.Second

// owe takes bytes out of a bucket, below nothing if need be, and tells how long it is in debt.
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

// acks is what acknowledges n bytes of payload: a packet without any for each two that were full.
func acks(n int) int { return (n + 2*segment - 1) / (2 * segment) * overhead }

// cost is what n bytes of payload take on the network.
func cost(n int) int { return n + (n+segment-1)/segment*overhead }

// Wrap makes a connection count and keep the rates.
func (m *Meter) Wrap(c net.Conn) net.Conn {
	ctx, cancel := context.WithCancel(context.Background())
	return &metered{Conn: c, m: m, ctx: ctx, cancel: cancel}
}

type metered struct {
	net.Conn
	m      *Meter
	ctx    context.Context // of waits, until Close
	cancel context.CancelFunc
}

// ConnectTime passes on how long the handshake took; 0: the connection does not know.
func (c *metered) ConnectTime() time.Duration {
	if t, ok := c.Conn.(interface{ ConnectTime() time.Duration }); ok {
		return t.ConnectTime()
	}
	return 0
}

// Read waits after what has come: the bytes are here, the next ones wait in the network, where TCP slows the sender down.
func (c *metered) Read(b []byte) (int, error) {
	if c.m.down.Limit() != rate.Inf {
		b = b[:min(len(b), turn)]
	}
	n, err := c.Conn.Read(b)
	if n > 0 {
		k, back := cost(n), acks(n)
		c.m.received.Add(int64(k))
		c.m.sent.Add(int64(back))
		c.m.usage.add(k + back)
		owe(c.m.up, back)
		if c.pay(c.m.down, k) != nil && err == nil { // closed meanwhile; the next read says so too
			return n, nil
		}
	}
	return n, err
}

// Write waits before each part.
func (c *metered) Write(b []byte) (n int, err error) {
	for {
		part := b[n:]
		if c.m.up.Limit() != rate.Inf {
			part = part[:min(len(part), turn)]
		}
		k := cost(len(part))
		if err := c.pay(c.m.up, k); err != nil {
			return n, err
		}
		w, err := c.Conn.Write(part)
		n += w
		back := acks(w)
		c.m.sent.Add(int64(k))
		c.m.received.Add(int64(back))
		c.m.usage.add(k + back)
		owe(c.m.down, back)
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

func (c *metered) pay(l *rate.Limiter, n int) error {
	for n > 0 && l.Limit() != rate.Inf {
		part := min(n, l.Burst())
		r := l.ReserveN(time.Now(), part)
		if d := r.Delay(); d > 0 && d < math.MaxInt64 {
			t := time.NewTimer(d)
			select {
			case <-t.C:
			case <-c.ctx.Done():
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
	c.cancel()
	return c.Conn.Close()
}
