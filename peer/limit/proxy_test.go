package limit

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// office is a proxy that connects to one server of its own whatever is asked for, and remembers the requests.
type office struct {
	answer string // instead of connecting; empty: it connects
	mu     sync.Mutex
	asked  []string
	auth   string
}

func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.asked = append(o.asked, r.Method+" "+r.Host)
	o.auth = r.Header.Get("Proxy-Authorization")
	o.mu.Unlock()
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	if o.answer != "" {
		io.WriteString(c, o.answer)
		return
	}
	io.WriteString(c, "HTTP/1.1 200 Connection established\r\nX: y\r\n\r\nserver speaks first\n") // in one packet
	line, _ := bufio.NewReader(c).ReadString('\n')
	io.WriteString(c, "you said "+line)
}

func TestProxy(t *testing.T) {
	o := &office{}
	plain, secure := httptest.NewServer(o), httptest.NewTLSServer(o)
	defer plain.Close()
	defer secure.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	for _, at := range []string{plain.URL, secure.URL} {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("ada", "secret")
		p, err := NewProxy(u.String(), (&net.Dialer{}).DialContext)
		if err != nil {
			t.Fatal(err)
		}
		p.tls = &tls.Config{RootCAs: roots}
		g := &Guard{Resolver: names{"site.example": {"203.0.114.7"}}, Via: func() *Proxy { return p }}
		c, err := g.DialContext(t.Context(), "tcp", "site.example:443")
		if err != nil {
			t.Fatal(err)
		}
		if c.RemoteAddr().String() != "203.0.114.7:443" {
			t.Error(c.RemoteAddr())
		}
		if d, ok := c.(interface{ ConnectTime() time.Duration }); !ok || d.ConnectTime() <= 0 {
			t.Error("no time of connecting")
		}
		io.WriteString(c, "hello\n")
		b, err := io.ReadAll(c)
		c.Close()
		if string(b) != "server speaks first\nyou said hello\n" {
			t.Errorf("%q, %v", b, err)
		}
	}
	if want := []string{"CONNECT 203.0.114.7:443", "CONNECT 203.0.114.7:443"}; !slices.Equal(o.asked, want) || o.auth != "Basic YWRhOnNlY3JldA==" {
		t.Errorf("asked for %q with %q", o.asked, o.auth)
	}
}

// TestProxyIsToldPublicAddresses checks that a proxy gets neither names nor inside addresses, whatever a name server
// answers.
func TestProxyIsToldPublicAddresses(t *testing.T) {
	o := &office{}
	srv := httptest.NewServer(o)
	defer srv.Close()
	p, err := NewProxy(srv.URL, (&net.Dialer{}).DialContext)
	if err != nil {
		t.Fatal(err)
	}
	no := errors.New("denied")
	g := &Guard{Resolver: &changing{}, Via: func() *Proxy { return p }, Allow: func(host string, _ netip.Addr) error {
		if host == "denied.example" {
			return no
		}
		return nil
	}}
	for _, addr := range []string{"127.0.0.1:80", "[::ffff:10.0.0.1]:80", "169.254.169.254:80", "8.8.8.8:25", "[64:ff9b::7f00:1]:80"} {
		if _, err := g.DialContext(t.Context(), "tcp", addr); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	c, err := g.DialContext(t.Context(), "tcp", "rebind.example:80")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := g.DialContext(t.Context(), "tcp", "rebind.example:80"); !errors.Is(err, ErrForbidden) {
		t.Errorf("after the name moved inside: %v", err)
	}
	g.Resolver = names{"denied.example": {"203.0.114.9"}}
	if _, err := g.DialContext(t.Context(), "tcp", "denied.example:80"); !errors.Is(err, no) {
		t.Error(err)
	}
	if want := []string{"CONNECT 203.0.114.7:80"}; !slices.Equal(o.asked, want) {
		t.Errorf("the proxy was told %q", o.asked)
	}
	if _, err := p.DialContext(t.Context(), "tcp", "site.example:80"); !errors.Is(err, ErrProxy) {
		t.Errorf("a name: %v", err)
	}
}

func TestProxyRefuses(t *testing.T) {
	for answer, says := range map[string]string{
		"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n":          "403 Forbidden",
		"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n":           "407",
		"SSH-2.0-OpenSSH_9\r\n":                                        "malformed",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", maxProxyHeader): "too long",
		"HTTP/1.1 200 OK\r\nX: y\r\n":                                  "EOF",
	} {
		srv := httptest.NewServer(&office{answer: answer})
		p, err := NewProxy(srv.URL, (&net.Dialer{}).DialContext)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := p.DialContext(t.Context(), "tcp", "203.0.114.7:80"); c != nil || !errors.Is(err, ErrProxy) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, %v", answer, c, err)
		}
		srv.Close()
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p, err := NewProxy("http://"+silent.Addr().String(), (&net.Dialer{}).DialContext)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.DialContext(ctx, "tcp", "203.0.114.7:80"); err == nil {
		t.Error("a proxy that says nothing")
	}
	for _, at := range []string{"proxy.example:3128", "socks5://proxy.example", "http://", "http://p.example/path", "http://p.example?x", "http://%zz"} {
		if _, err := NewProxy(at, nil); !errors.Is(err, ErrSettings) {
			t.Errorf("%s: %v", at, err)
		}
	}
}
