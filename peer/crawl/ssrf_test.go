package crawl

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"shoal/channel"
	"shoal/peer/limit"
)

// inside are ways in which a host may point at addresses that are not its own.
var inside = []string{
	"http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://0/", "http://[::1]/", "http://[::]/",
	"http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[64:ff9b::7f00:1]/", "http://10.0.0.1/", "http://172.16.5.4/", "http://192.168.1.1/",
	"http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "http://[fe80::1]/", "http://224.0.0.1/", "http://[ff02::1]/", "http://100.64.0.1/",
	"http://localhost/", "http://user:pw@127.0.0.1/", "http://site.test@127.0.0.1/", "http://127.0.0.1#@site.test/", "http://inside.test/", "http://mixed.test/",
	"http://[2002:7f00:1::]/", "http://[2002:a00:1::1]/", "http://[2001::1]/", "http://[64:ff9b:1::7f00:1]/", "http://[::127.0.0.1]/", "http://[::ffff:0:127.0.0.1]/",
	"http://127.1/", "http://017700000001/", "http://0x7f000001/", "http://0x7f.0.0x0.01/", "http://127.0.0.1./", "http://①②⑦.⓪.⓪.①/", "http://192.0.0.192/", "http://168.63.129.16/",
	"http://100.100.100.200/latest/meta-data/", "http://[fec0::1]/", "http://[fd20:ce::254]/", "http://255.255.255.255/", "http://240.0.0.1/", "http://198.18.0.1/", "http://192.0.2.1/",
	"http://203.0.113.9/", "http://[2001:db8::1]/", "http://[100::1]/", "http://[fe80::1%25lo]/", "http://169.254.169.254.:80/", "http://user@site.test:pw@127.0.0.1/", "https://127.0.0.1/",
	"http://site.test:22/", "http://site.test:6379/../", "//127.0.0.1/", "http:\\\\127.0.0.1\\", "http://127。0。0。1/", "file:///etc/passwd", "gopher://127.0.0.1:70/",
}

// resolver knows a few names. rebind.test is public when it is first asked for, and inside from then on.
type resolver struct {
	mu    sync.Mutex
	asked map[string]int
}

func (r *resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[host]++
	ips := map[string][]string{"site.test": {"203.0.114.80"}, "inside.test": {"10.1.2.3"}, "mixed.test": {"127.0.0.1", "::1"}, "localhost": {"127.0.0.1", "::1"},
		"rebind.test": {"203.0.114.80"}}[host]
	if host == "rebind.test" && r.asked[host] > 1 {
		ips = []string{"127.0.0.1", "169.254.169.254"}
	}
	if ips == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	var out []netip.Addr
	for _, ip := range ips {
		out = append(out, netip.MustParseAddr(ip))
	}
	return out, nil
}

// TestNothingInside crawls hosts that try everything to have a peer dial inside: by links, redirects, robots.txt, sitemaps, base, refresh
// and rebinding. The guard's check is the real one; what passes it is recorded, and led to the test's own server instead of the Internet.
func TestNothingInside(t *testing.T) {
	for _, host := range []string{"site.test", "rebind.test"} {
		origin := "http://" + host
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := 0
			switch {
			case r.URL.Path == "/robots.txt":
				for _, u := range inside {
					fmt.Fprintf(w, "Sitemap: %s\n", u)
				}
				fmt.Fprint(w, "Sitemap: /s.xml\nUser-agent: *\nAllow: /\n")
			case r.URL.Path == "/s.xml":
				w.Header().Set("Content-Type", "text/xml")
				fmt.Fprint(w, "<sitemapindex>")
				for _, u := range inside {
					fmt.Fprintf(w, "<sitemap><loc>%s</loc></sitemap>", u)
				}
			case r.URL.Path == "/":
				w.Header().Set("Connection", "close") // so that the name is asked for again
				body := ""
				for i, u := range inside {
					body += fmt.Sprintf(`<a href="%s">x</a><a href="/to-%d">r</a><a href="/base-%d">b</a><iframe src="%s"></iframe>`, u, i, i, u)
				}
				hypertext(body)(w, r)
			default:
				if _, err := fmt.Sscanf(r.URL.Path, "/to-%d", &n); err == nil {
					w.Header()["Location"] = []string{inside[n]}
					w.WriteHeader(http.StatusFound)
				} else if _, err := fmt.Sscanf(r.URL.Path, "/base-%d", &n); err == nil {
					hypertext(fmt.Sprintf(`<base href="%s"><meta http-equiv="refresh" content="0;url=%s"><a href="x">x</a>`, inside[n], inside[n]))(w, r)
				}
			}
		}))
		var mu sync.Mutex
		passed := map[string]int{}
		stop := errors.New("recorded")
		g := &limit.Guard{Resolver: &resolver{asked: map[string]int{}}, Control: func(_, address string, _ syscall.RawConn) error {
			mu.Lock()
			passed[address]++
			mu.Unlock()
			return stop
		}}
		cfg, _ := taskOf(t, origin, func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := g.DialContext(ctx, network, addr)
			if err == nil {
				c.Close()
				t.Errorf("%s was connected to", addr)
			}
			if !errors.Is(err, stop) {
				return nil, err
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
		})
		r := run(t, cfg)
		srv.Close()
		for at := range passed {
			if at != "203.0.114.80:80" {
				t.Errorf("%s: %s would have been dialled", host, at)
			}
		}
		if host == "site.test" && r.Pages < len(inside) || len(passed) == 0 {
			t.Errorf("%s: only %d pages: the test does not reach what it tests; %v", host, r.Pages, r.Errors)
		}
		if host == "rebind.test" && (passed["203.0.114.80:80"] != 1 || r.Outcome == channel.Updated && r.Errors["forbidden-address"] == 0) {
			t.Errorf("%s: dialled %v; outcome %d, %v", host, passed, r.Outcome, r.Errors)
		}
	}
}

// TestGuardOfInside dials each of them through the guard, as a crawl would whose scope, for once, did not keep it out: as the host of the
// task, and as where robots.txt leads. (robots.txt is the one thing that is followed to another host.)
func TestGuardOfInside(t *testing.T) {
	for _, raw := range inside {
		u, err := channel.Canonical(raw)
		if err != nil {
			continue // no Web URL, so no link
		}
		var passed []string
		g := &limit.Guard{Resolver: &resolver{asked: map[string]int{}}, Control: func(_, address string, _ syscall.RawConn) error {
			passed = append(passed, address)
			return errors.New("recorded")
		}}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				w.Header()["Location"] = []string{raw}
				w.WriteHeader(http.StatusMovedPermanently)
			}
		}))
		lead := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "lead.test:80" {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
			}
			return g.DialContext(ctx, network, addr)
		}
		for _, origin := range []string{channel.Origin(u), "http://lead.test"} {
			cfg, s := taskOf(t, origin, lead)
			r := run(t, cfg)
			if len(passed) > 0 && !strings.HasPrefix(passed[0], "203.0.114.80:") {
				t.Errorf("%s: %s would have been dialled", raw, passed[0])
			}
			if len(passed) == 0 && (r.Outcome != channel.Failed || r.Errors["forbidden-address"]+r.Errors["dns-not-found"] == 0 || len(s.pages()) > 0) {
				t.Errorf("%s by %s: outcome %d, %v, %s", raw, origin, r.Outcome, r.Errors, r.Reason)
			}
		}
		srv.Close()
	}
}
