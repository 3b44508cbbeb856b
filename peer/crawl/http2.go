package crawl

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// What HTTP/2 may cost for one request, in frames that bring content. net/http reads frames that say nothing, or that nobody waits for any
// more, for as long as they come, and answers some of them.
const (
	maxFrames  = 20_000 // a page of 2 MiB in frames of 100 bytes
	dataBytes  = 512    // bytes of content that cost one more; those that are wanted are free
	otherFrame = 20     // what a frame costs that brings none: SETTINGS, PING, a header, one of no known type
	otherBytes = 64     // bytes of such a frame that cost one more
)

type flooded struct{}

func (flooded) Error() string {
	return "crawl: the host sends HTTP/2 frames that bring nothing, and more of them than anybody needs"
}

// ErrorKind names it in a crawl's report.
func (flooded) ErrorKind() string { return "h2-flood" }

// framed watches the frames that a host sends (RFC 9113, section 4.1), and keeps what is written to it from waiting for ever: net/http
// writes while it holds what everything else of the connection needs.
type framed struct {
	net.Conn
	left atomic.Int64 // frames that may still come before the next request
	head [9]byte      // of the frame that is read; this and what follows is the reader's
	have int          // bytes of head that have come
	rest int          // bytes of the frame that are still to come
}

func (c *framed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.pass(b[:n]) {
		return 0, flooded{}
	}
	return n, err
}

// pass looks at what came, and tells whether it may go on.
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
		size := min(c.rest, 1<<14) // net/http ends what is larger
		cost := 1 + size/dataBytes
		if c.head[3] != 0 || size == 0 { // not DATA, or none of it
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

// http2Over speaks HTTP/2 on a connection that has agreed to. To net/http it is one without TLS, since it takes no other than its own.
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

// bound bounds an exchange over HTTP/2 whose body is wanted up to limit. What hangs beyond it hangs on a lock that a blocked write holds, and ends with the
// connection.
func (l *line) bound(ctx context.Context, limit int) (context.Context, func()) {
	if l.h2 == nil {
		return ctx, func() {}
	}
	l.frames.left.Store(maxFrames + int64(limit/dataBytes))
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	end := time.AfterFunc(RequestTimeout+time.Second, func() { l.Conn.Close() })
	return ctx, func() { end.Stop(); cancel() }
}
