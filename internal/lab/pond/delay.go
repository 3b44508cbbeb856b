package pond

import (
	"net"
	"os"
	"sync"
	"time"
)

// MaxQueued bounds the bytes that wait in one delayed connection. Writers wait beyond it.
const MaxQueued = 4 << 20

// delayed is a connection on which the dialler's writes arrive one round-trip time late. A question and its answer
// contain exactly one message of the dialler, so a round trip costs one RTT whichever side asks, and bytes stream at
// full speed.
//
// Written bytes wait in a queue with the moment at which they are due. A goroutine runs only while something waits.
type delayed struct {
	net.Conn
	rtt time.Duration

	mu       sync.Mutex
	room     *sync.Cond
	queue    []packet
	bytes    int
	pumping  bool
	closed   bool
	err      error // of the connection below; every later write gets it
	deadline time.Time
	alarm    *time.Timer
}

type packet struct {
	due  time.Time
	data []byte
}

func delay(c net.Conn, rtt time.Duration) net.Conn {
	d := &delayed{Conn: c, rtt: rtt}
	d.room = sync.NewCond(&d.mu)
	return d
}

// NetConn is the connection below.
func (d *delayed) NetConn() net.Conn { return d.Conn }

func (d *delayed) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	done := 0
	for done < len(p) {
		for d.bytes >= MaxQueued && d.err == nil && !d.closed && !d.late() {
			d.room.Wait()
		}
		switch {
		case d.closed:
			return done, net.ErrClosed
		case d.err != nil:
			return done, d.err
		case d.late():
			return done, os.ErrDeadlineExceeded
		}
		n := min(len(p)-done, MaxQueued-d.bytes)
		d.queue = append(d.queue, packet{time.Now().Add(d.rtt), append([]byte(nil), p[done:done+n]...)})
		d.bytes += n
		done += n
		if !d.pumping {
			d.pumping = true
			go d.pump()
		}
	}
	return done, nil
}

// late reports whether the write deadline has passed. mu is held.
func (d *delayed) late() bool { return !d.deadline.IsZero() && !time.Now().Before(d.deadline) }

// pump writes what is due until the queue is empty.
func (d *delayed) pump() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.queue) > 0 && d.err == nil {
		p := d.queue[0]
		d.queue = d.queue[1:]
		d.mu.Unlock()
		time.Sleep(time.Until(p.due))
		_, err := d.Conn.Write(p.data)
		d.mu.Lock()
		d.bytes -= len(p.data)
		if err != nil {
			d.err = err
			d.queue, d.bytes = nil, 0
		}
		d.room.Broadcast()
	}
	d.queue = nil
	d.pumping = false
	if d.closed {
		d.Conn.Close()
	}
}

func (d *delayed) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.closed {
			return n, net.ErrClosed
		}
	}
	return n, err
}

// Close ends reading and writing at once. Bytes written before still arrive when they are due, as on a real network.
func (d *delayed) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return net.ErrClosed
	}
	d.closed = true
	if d.alarm != nil {
		d.alarm.Stop()
	}
	d.room.Broadcast()
	if !d.pumping {
		return d.Conn.Close()
	}
	// The pump closes the connection. Until then no read may hang, and a peer that does not read may not hold the
	// pump.
	now := time.Now()
	_ = d.Conn.SetReadDeadline(now)
	return d.Conn.SetWriteDeadline(now.Add(d.rtt + time.Second))
}

func (d *delayed) SetDeadline(t time.Time) error {
	if err := d.SetReadDeadline(t); err != nil {
		return err
	}
	return d.SetWriteDeadline(t)
}

func (d *delayed) SetReadDeadline(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return net.ErrClosed
	}
	return d.Conn.SetReadDeadline(t)
}

// SetWriteDeadline bounds the wait for room in the queue. Bytes in the queue are already on their way.
func (d *delayed) SetWriteDeadline(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return net.ErrClosed
	}
	d.deadline = t
	if d.alarm != nil {
		d.alarm.Stop()
		d.alarm = nil
	}
	if !t.IsZero() {
		d.alarm = time.AfterFunc(time.Until(t), d.room.Broadcast)
	}
	d.room.Broadcast()
	return nil
}

// The remaining methods are those that go-libp2p expects of a TCP connection.

type tuned interface {
	SetKeepAlive(bool) error
	SetKeepAlivePeriod(time.Duration) error
	SetLinger(int) error
}

func (d *delayed) SetKeepAlive(on bool) error {
	if c, ok := d.Conn.(tuned); ok {
		return c.SetKeepAlive(on)
	}
	return nil
}

func (d *delayed) SetKeepAlivePeriod(p time.Duration) error {
	if c, ok := d.Conn.(tuned); ok {
		return c.SetKeepAlivePeriod(p)
	}
	return nil
}

func (d *delayed) SetLinger(sec int) error {
	if c, ok := d.Conn.(tuned); ok {
		return c.SetLinger(sec)
	}
	return nil
}
