package crawl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"shoal/channel"
)

// secure is a host behind TLS, reached by a name of its certificate or another one.
func secure(t *testing.T, http2 bool, host string, trusted bool, h http.Handler) (Config, *sink) {
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = http2
	srv.StartTLS()
	t.Cleanup(srv.Close)
	cfg, s := taskOf(t, "https://"+host, func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
	})
	cfg.Roots = x509.NewCertPool()
	if trusted {
		cfg.Roots.AddCert(srv.Certificate())
	}
	return cfg, s
}

func TestTLS(t *testing.T) {
	noLeaks(t)
	for _, http2 := range []bool{true, false} {
		var mu sync.Mutex
		protos, conns := map[string]int{}, map[string]bool{}
		pages := tree(50, 4)
		cfg, s := secure(t, http2, "example.com", true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			protos[r.Proto]++
			conns[r.RemoteAddr] = true
			mu.Unlock()
			pages.ServeHTTP(w, r)
		}))
		r := run(t, cfg)
		want := map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"}[http2]
		if r.Pages != 50 || protos[want] != 51 || len(conns) != 1 || r.BytesDown == 0 || r.RTT == 0 {
			t.Errorf("http2 %v: %d pages, %v, %d connections, %+v", http2, r.Pages, protos, len(conns), r.Errors)
		}
		if head := string(s.pages()[0].Header); !strings.HasPrefix(head, strings.TrimSuffix(want, ".0")+" 200 OK\r\n") || !strings.HasSuffix(head, "\r\n\r\n") {
			t.Errorf("header %q", head)
		}
	}
}

func TestTLSErrors(t *testing.T) {
	for _, c := range []struct {
		host    string
		trusted bool
		kind    string
	}{
		{"example.com", false, "tls-unknown-authority"},
		{"another.test", true, "tls-wrong-name"},
	} {
		cfg, _ := secure(t, false, c.host, c.trusted, tree(1, 1))
		if r := run(t, cfg); r.Outcome != channel.Failed || r.Errors[c.kind] != 1 {
			t.Errorf("want %s, got %v: %s", c.kind, r.Errors, r.Reason)
		}
	}
	cfg, _ := task(t, tree(1, 1)) // a host that speaks no TLS
	cfg.Header.Host, cfg.Body.Scope.Host, cfg.Body.Seeds = "https://site.test", "https://site.test", []string{"https://site.test/"}
	if r := run(t, cfg); r.Errors["tls-not-tls"] != 1 {
		t.Errorf("want tls-not-tls, got %v: %s", r.Errors, r.Reason)
	}
}

// TestOldServersAreReached crawls hosts that exchange keys by RSA alone, as old appliances do, and browsers still allow.
func TestOldServersAreReached(t *testing.T) {
	for _, suite := range []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_RSA_WITH_AES_256_CBC_SHA} {
		srv := httptest.NewUnstartedServer(tree(3, 2))
		srv.TLS = &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}}
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.StartTLS()
		t.Cleanup(srv.Close)
		cfg, _ := taskOf(t, "https://example.com", func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
		})
		cfg.Roots = x509.NewCertPool()
		cfg.Roots.AddCert(srv.Certificate())
		if r := run(t, cfg); r.Pages != 3 {
			t.Errorf("%s: %d pages of 3, %v: %s", tls.CipherSuiteName(suite), r.Pages, r.Errors, r.Reason)
		}
	}
}

// TestConnectionsAreKept sees one connection for a whole crawl, a new one where the host closed it, and none twice for one request.
func TestConnectionsAreKept(t *testing.T) {
	var mu sync.Mutex
	conns, asked := map[string]bool{}, map[string]int{}
	pages := tree(30, 3)
	cfg, _ := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		conns[r.RemoteAddr] = true
		asked[r.URL.Path]++
		mu.Unlock()
		if r.URL.Path == "/p7" && asked[r.URL.Path] == 1 { // hangs up once, instead of answering
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
			return
		}
		pages.ServeHTTP(w, r)
	}))
	r := run(t, cfg)
	if r.Pages != 30 || len(conns) != 2 || asked["/p7"] != 2 || r.Errors["hang-up"] != 1 {
		t.Errorf("%d pages, %d connections, /p7 asked for %d times, %v", r.Pages, len(conns), asked["/p7"], r.Errors)
	}
}

// lateConn refuses requests while it is late, as a connection does whose lease is in its last third.
type lateConn struct {
	net.Conn
	late, tends *atomic.Bool
}

func (c lateConn) Tends(is bool) { c.tends.Store(is) }

func (c lateConn) Write(b []byte) (int, error) {
	if c.late.Load() && !c.tends.Load() {
		return 0, errors.New("no request now")
	}
	return c.Conn.Write(b)
}

// TestHTTP2GoesOnWithoutRequests has the right to send requests end while a long page comes over HTTP/2, and be renewed then: the page is read to its end, with the
// window updates that this takes, and the connection is as good as before.
func TestHTTP2GoesOnWithoutRequests(t *testing.T) {
	noLeaks(t)
	var late, tends atomic.Bool
	var mu sync.Mutex
	conns := map[string]bool{}
	cfg, s := secure(t, true, "example.com", true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		conns[r.RemoteAddr] = true
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
		case "/next":
			fmt.Fprint(w, "<p>the next page")
			return
		default:
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `<a href="/next">next</a>`)
		w.(http.Flusher).Flush()
		late.Store(true)
		for range 100 {
			fmt.Fprint(w, strings.Repeat("words of a long page ", 500))
			w.(http.Flusher).Flush()
		}
	}))
	cfg.OnVisit = func(v Visit) {
		if v.Status == http.StatusOK {
			late.Store(false)
		}
	}
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return lateConn{c, &late, &tends}, nil
	}
	r := run(t, cfg)
	if len(s.pages()) != 2 || len(conns) != 1 || len(r.Errors) > 0 {
		t.Errorf("%d pages over %d connections, %v", len(s.pages()), len(conns), r.Errors)
	}
}

// TestLinksToHTTPOfTheSameHost: a site that has moved to https may have links and redirects as before. They are followed where the site is now, and
// reported as they are. Those to other ports are not followed, and none of them leads in a circle.
func TestLinksToHTTPOfTheSameHost(t *testing.T) {
	asked := map[string]int{} // the crawl has one connection
	cfg, s := secure(t, false, "example.com", true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path]++
		switch r.URL.Path {
		case "/":
			hypertext(`<a href="http://example.com/a">x</a> <a href="http://example.com:80/b">x</a> <a href="http://example.com:8080/c">x</a> <a href="http://other.test/d">x</a>
				<link rel="alternate" type="application/rss+xml" href="http://example.com/feed">`)(w, r)
		case "/a":
			http.Redirect(w, r, "http://example.com/e", http.StatusFound)
		case "/b":
			http.Redirect(w, r, "http://example.com/b", http.StatusFound)
		default:
			hypertext("page")(w, r)
		}
	}))
	r := run(t, cfg)
	pages := []string{"https://example.com/", "https://example.com/a", "https://example.com/b", "https://example.com/e", "https://example.com/feed"}
	if !slices.Equal(s.urls(), pages) || asked["/b"] != 1 {
		t.Errorf("fetched %q, want %q; asked for %v", s.urls(), pages, asked)
	}
	inter := []string{"http://example.com/a", "http://example.com/b", "http://example.com/e", "http://example.com/feed", "http://example.com:8080/c", "http://other.test/d"}
	if got := slices.Sorted(slices.Values(r.Inter)); !slices.Equal(got, inter) {
		t.Errorf("reported %q, want %q", got, inter)
	}
}
