package crawl

import (
	"context"
	"encoding/binary"
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
// that everything else on the connection needs.
type framed struct {
	net.Conn
	left atomic.Int64 // frames that may still come before the next request
	head [9]byte      // of the present frame; this and the fields below belong to the reader
	have int          // bytes of head so far
	rest int          // bytes of the frame to come
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
		if c.rest > 0 {
			n := min(c.rest, len(b))
			c.rest -= n
			b = b[n:]
			continue
		}
		n := copy(c.head[c.have:], b)
		c.have += n
		b = b[n:]
		if c.have < len(c.head) {
			return true
		}
		c.have, c.rest = 0, int(binary.BigEndian.Uint32(c.head[:])>>8)
		size := min(c.rest, 1<<14) // net/http refuses larger frames
		cost := 1 + size/dataBytes
		if c.head[3] != 0 || size == 0 { // not DATA, or empty
			cost = otherFrame + size/otherBytes
		}
		if c.left.Add(int64(-cost)) < 0 {
			return false
		}
	}
	return true
}

func (c *framed) Write(b []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(RequestTimeout)); err != nil {
		return 0, err
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
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	end := time.AfterFunc(RequestTimeout+time.Second, func() { l.Conn.Close() })
	return ctx, func() { end.Stop(); cancel() }
}
