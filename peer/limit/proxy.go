package limit

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// ErrProxy is returned if an admin's proxy refuses to connect. The wrapping error holds its answer.
var ErrProxy error = proxyError{}

type proxyError struct{}

func (proxyError) Error() string { return "limit: the network's proxy does not connect" }

// ErrorKind is the error's name in a crawl's report.
func (proxyError) ErrorKind() string { return "proxy" }

// Proxy connects through an HTTP proxy by CONNECT (RFC 9110, section 9.3.6). It passes addresses only: the peer
// resolves and checks names itself, so that the proxy's view of them opens no way into its network.
type Proxy struct {
	url  *url.URL
	dial DialFunc    // reaches the proxy itself
	tls  *tls.Config // nil: the system's roots
}

// NewProxy returns a Proxy for "http://host:port" or "https://host:port". A user name and password may stand before
// the host.
func NewProxy(at string, dial DialFunc) (*Proxy, error) {
	u, err := parseProxy(at)
	if err != nil {
		return nil, err
	}
	return &Proxy{url: u, dial: dial}, nil
}

func parseProxy(at string) (*url.URL, error) {
	u, err := url.Parse(at)
	switch {
	case err != nil:
		return nil, Bad("proxy", "cannot be read; want http://host:port or https://host:port") // the error would show a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "":
		return nil, Bad("proxy", "is %q; want http://host:port or https://host:port", u.Redacted())
	}
	return u, nil
}

// DialContext connects to an address behind the proxy.
func (p *Proxy) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is not an address", ErrProxy, addr)
	}
	port := p.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[p.url.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := p.dial(ctx, "tcp", net.JoinHostPort(p.url.Hostname(), port))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrProxy, p.url.Host, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	out, err := p.connect(ctx, c, to)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return out, nil
}

func (p *Proxy) connect(ctx context.Context, c net.Conn, to netip.AddrPort) (net.Conn, error) {
	if p.url.Scheme == "https" {
		cfg := &tls.Config{}
		if p.tls != nil {
			cfg = p.tls.Clone()
		}
		cfg.ServerName, cfg.NextProtos = p.url.Hostname(), []string{"http/1.1"}
		t := tls.Client(c, cfg)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrProxy, p.url.Host, err)
		}
		c = t
	}
	auth := ""
	if u := p.url.User; u != nil {
		password, _ := u.Password()
		auth = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)) + "\r\n"
	}
	start := time.Now()
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", to, to, auth); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrProxy, p.url.Host, err)
	}
	header := &limited{Conn: c, left: maxProxyHeader}
	r := bufio.NewReaderSize(header, 4096)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrProxy, p.url.Host, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w to %v: %s answers %q", ErrProxy, to, p.url.Host, resp.Status)
	}
	header.left = -1
	return &proxied{Conn: c, r: r, to: net.TCPAddrFromAddrPort(to), took: time.Since(start)}, nil
}

// maxProxyHeader bounds a proxy's answer before the tunnel is open.
const maxProxyHeader = 16 << 10

// limited reads at most left bytes; a negative left is no limit.
type limited struct {
	net.Conn
	left int
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left == 0 {
		return 0, errors.New("answer too long")
	}
	if l.left > 0 {
		b = b[:min(len(b), l.left)]
	}
	n, err := l.Conn.Read(b)
	if l.left > 0 {
		l.left -= n
	}
	return n, err
}

// proxied is a connection through a proxy. The server's first bytes may follow the proxy's answer in the same packet.
type proxied struct {
	net.Conn
	r    *bufio.Reader
	to   net.Addr
	took time.Duration
}

func (c *proxied) Read(b []byte) (int, error) { return c.r.Read(b) }
func (c *proxied) RemoteAddr() net.Addr       { return c.to }
func (c *proxied) SetLinger(sec int) error    { return linger(c.Conn, sec) }

// ConnectTime returns how long the proxy took to connect: about the round-trip time to the proxy and on to the host.
func (c *proxied) ConnectTime() time.Duration { return c.took }
