package crawl

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Limits of what a host may send over HTTP/2 for one request, counted in frames with content. net/http reads frames without content, and of
// streams that have ended, for as long as they come, and answers some of them.
const (
	maxFrames  = 20_000 // a page of 2 MiB in frames of 100 bytes
	dataBytes  = 512    // bytes of content that count as one frame more; wanted content is free
	otherFrame = 20     // what a frame without content counts as: SETTINGS, PING, headers, unknown types
	otherBytes = 64     // bytes of such a frame that count as one frame more
)

type flooded struct{}

func (flooded) Error() string {
	return "crawl: the host sends HTTP/2 frames that bring nothing, and more of them than anybody needs"
}

// ErrorKind names it in a crawl's report.
func (flooded) ErrorKind() string { return "h2-flood" }

// framed counts the frames that a host sends (RFC 9113, section 4.1), and gives each write a deadline: net/http writes while it holds a lock
// that everything else on the connection needs. It tells the socket which writes are no requests: those must not fail while an answer is coming.
type framed struct {
	net.Conn
	left  atomic.Int64 // frames that may still come before the next request
	tends func(bool)   // tells the socket whether what is written only tends what is under way; nil: it does not ask
	in    frameScan    // belongs to the reader
	out   frameScan    // belongs to the writer, of which there is one at a time
}

// frameScan finds the frames in what is read or written by and by.
type frameScan struct {
	head [9]byte // of the present frame
	have int     // bytes of head so far
	rest int     // bytes of the frame to come
}

// next takes what is left of the present frame off b, and reports whether the header of another frame was complete then: its type and its size.
func (f *frameScan) next(b []byte) (rest []byte, kind byte, size int, whole bool) {
	if f.rest > 0 {
		n := min(f.rest, len(b))
		f.rest -= n
		b = b[n:]
	}
	n := copy(f.head[f.have:], b)
	f.have += n
	if f.have < len(f.head) {
		return nil, 0, 0, false
	}
	f.have, f.rest = 0, int(binary.BigEndian.Uint32(f.head[:])>>8)
	return b[n:], f.head[3], f.rest, true
}

func (c *framed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.pass(b[:n]) {
		return 0, flooded{}
	}
	return n, err
}

// pass counts frames and tells whether the connection may go on.
func (c *framed) pass(b []byte) bool {
	for len(b) > 0 {
		rest, kind, size, whole := c.in.next(b)
		if b = rest; !whole {
			return true
		}
		size = min(size, 1<<14) // net/http refuses larger frames
		cost := 1 + size/dataBytes
		if kind != frameData || size == 0 {
			cost = otherFrame + size/otherBytes
		}
		if c.left.Add(int64(-cost)) < 0 {
			return false
		}
	}
	return true
}

// Types of frames (RFC 9113, section 6).
const (
	frameData         = 0
	frameHeaders      = 1
	frameContinuation = 9
)

// preface begins what a client writes (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// asks tells whether what is written is a request, or a part of one. All else, such as window updates and answers to pings, the host needs to go on with its answer.
func (c *framed) asks(b []byte) (is bool) {
	if bytes.HasPrefix(b, []byte(preface)) {
		b, is = b[len(preface):], true // a connection is made for a request
	}
	is = is || c.out.rest > 0 || c.out.have > 0 // a frame of which the beginning was written before: net/http writes whole ones, unless they are long
	for len(b) > 0 {
		rest, kind, _, whole := c.out.next(b)
		if b = rest; whole {
			is = is || kind == frameData || kind == frameHeaders || kind == frameContinuation
		}
	}
	return is
}

func (c *framed) Write(b []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(RequestTimeout)); err != nil {
		return 0, err
	}
	if c.tends != nil && !c.asks(b) {
		c.tends(true)
		defer c.tends(false)
	}
	return c.Conn.Write(b)
}

// http2Over speaks HTTP/2 on a connection that has agreed to it. net/http takes it for one without TLS, since it accepts no TLS but its own.
func http2Over(ctx context.Context, c *framed, host string) (*http.ClientConn, error) {
	c.left.Store(maxFrames)
	t := &http.Transport{
		DisableCompression: true, MaxResponseHeaderBytes: MaxHeader, Protocols: new(http.Protocols),
		DialContext: func(context.Context, string, string) (net.Conn, error) { return c, nil },
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	if _, _, err := net.SplitHostPort(host); err != nil {
		host += ":443"
	}
	return t.NewClientConn(ctx, "http", host)
}

// bound limits the time and the frames of an exchange over HTTP/2 whose body is wanted up to limit. A blocked write may hold the exchange
// beyond its deadline; closing the connection ends that too.
func (l *line) bound(ctx context.Context, limit int) (context.Context, func()) {
	if l.h2 == nil {
		return ctx, func() {}
	}
	l.frames.left.Store(maxFrames + int64(limit/dataBytes))
	within, cancel := context.WithCancelCause(ctx)
	before, left, over := l.waited(), mostOwn, false
	var end *time.Timer
	var ended atomic.Bool // the exchange is over: what comes next on the connection has a time of its own
	begun := make(chan struct{})
	end = time.AfterFunc(RequestTimeout, func() {
		<-begun
		// The time is the host's: what was waited for this computer's own limits does not count.
		switch own := min(l.waited()-before, left); {
		case ended.Load():
		case over:
			l.Conn.Close()
		case own > 0:
			before, left = before+own, left-own
			end.Reset(own)
		default:
			over = true
			cancel(context.DeadlineExceeded)
			end.Reset(time.Second)
		}
	})
	close(begun)
	return bounded{within}, func() {
		ended.Store(true)
		end.Stop()
		cancel(nil)
	}
}

// mostOwn bounds what an exchange may wait for this computer's own limits beside its time.
const mostOwn = 2 * time.Minute

// bounded is a context that ends as one with a deadline does if that is its cause.
type bounded struct{ context.Context }

// Err implements context.Context.
func (b bounded) Err() error {
	err := b.Context.Err()
	if err != nil && errors.Is(context.Cause(b.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}
