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
	"sync"
	"sync/atomic"
	"time"

	"shoal/channel"
)

// Errors of a connection.
var (
	errHungUp = fmt.Errorf("crawl: the host closed the connection instead of answering: %w", io.EOF)
	errHeader = errors.New("crawl: response headers exceeded 64 KiB")
)

// line is the one connection of a crawl. It uses net/http's parser of headers, and not its client: when a connection breaks, the client
// repeats a request at once, where a polite crawler waits its turn; it passes every response through several goroutines; and it refuses
// headers that other clients read. Owned by the fetcher.
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

	socket  net.Conn    // beneath Conn
	pending atomic.Bool // a request was written that has no answer yet

	waited func() time.Duration // for this computer's own limits, so far

	raw, head []byte // the header of the last response, as it came and tidied
	parser    *bufio.Reader
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
	l := &line{Conn: counted{c, f}, f: f, origin: origin, waited: func() time.Duration { return 0 }}
	if w, ok := c.(interface{ Waited() time.Duration }); ok {
		l.waited = w.Waited
	}
	if u.Scheme == "https" {
		// It offers HTTP/2, as browsers do.
		secure := &tls.Config{ServerName: u.Hostname(), RootCAs: f.cfg.Roots, NextProtos: []string{"h2", "http/1.1"}, CipherSuites: suites()}
		if f.cfg.Issuers != nil {
			secure.InsecureSkipVerify, secure.VerifyConnection = true, f.cfg.Issuers.verifier(u.Hostname(), f.cfg.Roots)
		}
		t := tls.Client(l.Conn, secure)
		if err := t.HandshakeContext(dialling); err != nil {
			c.Close()
			return nil, err
		}
		l.Conn = t
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			l.frames = &framed{Conn: t}
			if s, ok := c.(interface{ Tends(bool) }); ok {
				l.frames.tends = s.Tends
			}
			if l.h2, err = http2Over(dialling, l.frames, u.Host); err != nil {
				t.Close()
				return nil, err
			}
		}
	}
	l.br, l.parser = bufio.NewReaderSize(l, 16<<10), bufio.NewReaderSize(nil, parserSize)
	l.socket = c
	l.unhook = context.AfterFunc(ctx, func() {
		l.forgetUnsent()
		c.Close()
	})
	return l, nil
}

// forgetUnsent has Close drop a request that has no answer, if the network has not taken it. Else the kernel goes on sending it, and where the network was away it
// reaches the host beside one of the next requests.
func (l *line) forgetUnsent() {
	if s, ok := l.socket.(interface{ SetLinger(int) error }); ok && l.pending.Load() {
		_ = s.SetLinger(0) // it fails where the connection has broken: then nothing is sent
	}
}

func (l *line) hangUp() {
	l.unhook()
	l.forgetUnsent()
	l.Conn.Close() // first: a blocked write may hold a lock that h2 needs to close
	if l.h2 != nil {
		l.h2.Close()
	}
}

const (
	idleCheck  = 100 * time.Millisecond // a connection that was idle for longer is checked before it is used
	aliveCheck = time.Millisecond       // how long the check takes
	parserSize = 4 << 10                // bytes of a header that are parsed at once
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
	l.sent = time.Now()
	l.pending.Store(true)
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
	for octets := 0; octets <= MaxHeader; {
		n, err := l.readHead()
		if err != nil {
			return nil, first, err
		}
		octets += n
		if l.head, err = tidyHeader(l.head[:0], l.raw); err != nil {
			return nil, first, err
		}
		l.parser.Reset(bytes.NewReader(l.head))
		if resp, err = http.ReadResponse(l.parser, nil); err != nil {
			return nil, first, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			resp.Body = l.body(resp)
			return resp, first, nil
		}
	}
	return nil, first, errors.New("crawl: malformed: interim responses without end")
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

// suites are the cipher suites that are offered up to TLS 1.2: the library's own, and behind them those whose keys are exchanged by RSA, as browsers offer them. Some old servers have no others. Whoever records
// the traffic and comes by such a server's key can read it later; what is fetched is public.
var suites = sync.OnceValue(func() (all []uint16) {
	for _, s := range tls.CipherSuites() {
		all = append(all, s.ID)
	}
	return append(all, tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA)
})
