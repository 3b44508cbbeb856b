package crawl

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"shoal/channel"
)

// Errors of a connection.
var (
	errHungUp = fmt.Errorf("crawl: the host closed the connection instead of answering: %w", io.EOF)
	errHeader = errors.New("crawl: response headers exceeded 64 KiB")
)

// line is the one connection of a crawl. It uses net/http's parser of responses, and not its client: when a connection breaks, the client
// repeats a request at once, where a polite crawler waits its turn; it passes every response through several goroutines; and it does not
// keep headers as they came. Owned by the fetcher.
type line struct {
	net.Conn
	f      *fetcher
	origin string
	br     *bufio.Reader
	h2     *http.ClientConn // nil: HTTP/1
	frames *framed          // of h2
	unhook func() bool
	used   time.Time // end of the last exchange; zero: none yet
	sent   time.Time // the last request

	head  []byte // what has come of the response, up to the end of its header
	whole bool   // head has its end
	quota int    // bytes that may still come before that end
	broke error  // the error that ended reading, unless that was io.EOF
}

// counted counts the bytes that a socket receives.
type counted struct {
	net.Conn
	f *fetcher
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.f.read.Add(int64(n))
	return n, err
}

// connect dials an origin.
func (f *fetcher) connect(ctx context.Context, origin string) (*line, error) {
	u, err := url.Parse(origin)
	if err != nil {
		return nil, err
	}
	dialling, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	start := time.Now()
	c, err := f.cfg.Dial(dialling, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	rtt := time.Since(start)
	if t, ok := c.(interface{ ConnectTime() time.Duration }); ok && t.ConnectTime() > 0 { // 0: the wrapped connection does not know
		rtt = t.ConnectTime()
	}
	if best := f.rtt.Load(); best == 0 || int64(rtt) < best {
		f.rtt.Store(int64(max(rtt, time.Microsecond)))
	}
	l := &line{Conn: counted{c, f}, f: f, origin: origin}
	if u.Scheme == "https" {
		// It offers HTTP/2, as browsers do.
		t := tls.Client(l.Conn, &tls.Config{ServerName: u.Hostname(), RootCAs: f.cfg.Roots, NextProtos: []string{"h2", "http/1.1"}})
		if err := t.HandshakeContext(dialling); err != nil {
			c.Close()
			return nil, err
		}
		l.Conn = t
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			l.frames = &framed{Conn: t}
			if l.h2, err = http2Over(dialling, l.frames, u.Host); err != nil {
				t.Close()
				return nil, err
			}
		}
	}
	l.br = bufio.NewReaderSize(l, 16<<10)
	l.unhook = context.AfterFunc(ctx, func() { c.Close() })
	return l, nil
}

func (l *line) hangUp() {
	l.unhook()
	l.Conn.Close() // first: a blocked write may hold a lock that h2 needs to close
	if l.h2 != nil {
		l.h2.Close()
	}
}

// Read is for the parser. It keeps the header and enforces its bound.
func (l *line) Read(b []byte) (int, error) {
	if !l.whole && l.quota == 0 {
		return 0, errHeader
	}
	n, err := l.Conn.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		l.broke = err
	}
	if !l.whole {
		l.quota = max(l.quota-n, 0)
		l.head = append(l.head, b[:n]...)
	}
	return n, err
}

// cutHead ends the header where the parser found its end: what the parser has read and not used comes after it. It drops the header of an
// interim response, since another response follows.
func (l *line) cutHead(interim bool) {
	end := len(l.head) - l.br.Buffered()
	if interim {
		l.head = append(l.head[:0], l.head[end:]...)
		return
	}
	l.head, l.whole = withCRLF(l.head[:end]), true
}

// withCRLF gives a header with its lines ended as HTTP has it. Some hosts end lines with LF alone. The parser reads that, as other clients do;
// readers of archived headers need not.
func withCRLF(header []byte) []byte {
	if bytes.HasSuffix(header, []byte("\r\n\r\n")) && bytes.Count(header, []byte("\n")) == bytes.Count(header, []byte("\r\n")) {
		return header
	}
	out := make([]byte, 0, len(header)+bytes.Count(header, []byte("\n"))+len("\r\n"))
	for line := range bytes.SplitSeq(bytes.TrimRight(header, " \t\r\n"), []byte("\n")) {
		out = append(append(out, bytes.TrimRight(line, "\r")...), "\r\n"...)
	}
	return append(out, "\r\n"...)
}

const (
	idleCheck  = 100 * time.Millisecond // a connection that was idle for longer is checked before it is used
	aliveCheck = time.Millisecond       // how long the check takes
	maxInterim = 5                      // interim responses to one request
)

// alive reports whether an idle connection can still be used. It cannot if the host has closed it, or has sent something unasked.
func (l *line) alive() bool {
	if l.h2 != nil {
		return l.h2.Err() == nil && l.h2.Available() > 0
	}
	if l.br.Buffered() > 0 {
		return false
	}
	if l.used.IsZero() || time.Since(l.used) < idleCheck {
		return true
	}
	if l.SetReadDeadline(time.Now().Add(aliveCheck)) != nil {
		return false
	}
	var b [1]byte
	_, err := l.Conn.Read(b[:])
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// send sends a request.
func (l *line) send(request []byte) error {
	if err := l.SetDeadline(time.Now().Add(RequestTimeout)); err != nil {
		return err
	}
	l.head, l.whole, l.quota = l.head[:0], false, MaxHeader+l.br.Size()
	l.sent = time.Now()
	_, err := l.Conn.Write(request)
	return err
}

// answer reads the header of the response. first is when its first byte came.
func (l *line) answer() (resp *http.Response, first time.Time, err error) {
	if time.Since(l.sent) > idleCheck { // the caller's own work between request and response is not the host's time
		if err := l.SetDeadline(time.Now().Add(RequestTimeout)); err != nil {
			return nil, first, err
		}
	}
	if _, err := l.br.Peek(1); err != nil {
		if err == io.EOF {
			err = errHungUp
		}
		return nil, first, err
	}
	first = time.Now()
	for range maxInterim {
		if resp, err = http.ReadResponse(l.br, nil); err != nil {
			if l.broke != nil { // a field that was cut off is not malformed
				err = l.broke
			}
			return nil, first, err
		}
		interim := resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols
		if l.cutHead(interim); !interim {
			return resp, first, nil
		}
	}
	return nil, first, fmt.Errorf("crawl: malformed: more than %d interim responses", maxInterim)
}

// appendRequest appends a GET of a canonical URL for HTTP/1.1. A canonical path is encoded as browsers encode it.
func appendRequest(b []byte, u string, fields http.Header) []byte {
	origin := channel.Origin(u)
	b = append(b, "GET "...)
	b = append(b, u[len(origin):]...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, origin[strings.Index(origin, "://")+len("://"):]...)
	b = append(b, "\r\n"...)
	for _, name := range requestFields {
		for _, v := range fields[name] {
			b = append(append(append(append(b, name...), ": "...), v...), "\r\n"...)
		}
	}
	return append(b, "\r\n"...)
}

// request is the same for HTTP/2.
func request(ctx context.Context, u string, fields http.Header) *http.Request {
	scheme, rest, _ := strings.Cut(u, "://")
	host, _, _ := strings.Cut(rest, "/")
	req := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: scheme, Host: host, Opaque: "//" + rest}, Host: host, Header: fields}
	return req.WithContext(ctx)
}

// requestFields are the fields of a request, in the order in which they are sent.
var requestFields = [...]string{"User-Agent", "Accept", "Accept-Encoding", "If-None-Match", "If-Modified-Since"}
