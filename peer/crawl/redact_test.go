package crawl

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"shoal/channel"
	"shoal/peer/crawl/redact"
)

// A host that echoes its visitor's address does not get it into the archive by a header, and a page that shows it is marked.
func TestVisitorsAddressIsRedacted(t *testing.T) {
	const ip = "81.2.69.142"
	own := redact.New(netip.MustParseAddr(ip))
	cfg, s := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("X-Your-Ip", ip)
		w.Header().Add("Set-Cookie", "visitor=81-2-69-142; path=/")
		if r.URL.Path == "/echo" {
			fmt.Fprintf(w, "<p>You come from %s</p>", ip)
			return
		}
		fmt.Fprint(w, `<a href="/echo">echo</a>`)
	}))
	cfg.Own = func() *redact.Finder { return own }
	if _, err := Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	pages := s.pages()
	if len(pages) != 2 {
		t.Fatalf("%d pages, want 2", len(pages))
	}
	for _, p := range pages {
		if own.Shows(p.Header) || !bytes.Contains(p.Header, []byte(redact.Replacement)) {
			t.Errorf("%s: the header is %q", p.URL, p.Header)
		}
		if want := p.URL == "http://site.test/echo"; p.ShowsVisitor != want {
			t.Errorf("%s: marked %v, want %v", p.URL, p.ShowsVisitor, want)
		}
	}
}

// TestVisitorsAddressInAURL: a host that leads its visitors to URLs with their address gets none of them into the archive, be it by a redirect, a Refresh, a link, a
// feed or a sitemap.
func TestVisitorsAddressInAURL(t *testing.T) {
	const ip = "81.2.69.142"
	own := redact.New(netip.MustParseAddr(ip))
	cfg, s := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/moved", "/away":
			to := "/check?ip=" + ip
			if r.URL.Path == "/away" {
				to = "http://other.test/81-2-69-142"
			}
			h.Set("Location", to)
			w.WriteHeader(http.StatusFound)
		case "/refresh":
			h.Set("Refresh", "0; url=/from/"+ip)
			fmt.Fprint(w, "<p>Wait")
		case "/link":
			fmt.Fprint(w, `<a href="/next">next</a><a href="/for/&#56;1.2.69.142">you</a><link rel=alternate type=application/rss+xml href="/feed/&#56;1.2.69.142">`)
		case "/news":
			h.Set("Content-Type", "application/rss+xml")
			fmt.Fprintf(w, "<rss><channel><item><link>http://site.test/item/%s</link></item></channel></rss>", ip)
		case "/":
			fmt.Fprint(w, `<a href="/moved">a</a><a href="/away">b</a><a href="/refresh">c</a><a href="/link">d</a><a href="/news">e</a>`)
		default:
			fmt.Fprint(w, "<p>Another page")
		}
	}))
	cfg.Own = func() *redact.Finder { return own }
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	marked := map[string]bool{"/": false, "/moved": false, "/away": false, "/refresh": true, "/link": true, "/news": true, "/next": false}
	for _, p := range s.pages() {
		want, is := marked[p.URL[len("http://site.test"):]]
		if !is || p.ShowsVisitor != want || own.Shows([]byte(fmt.Sprint(p.URL, p.Links, string(p.Header)))) {
			t.Errorf("%s, marked %v, links %q, header %q", p.URL, p.ShowsVisitor, p.Links, p.Header)
		}
		delete(marked, p.URL[len("http://site.test"):])
		if p.URL == "http://site.test/moved" && p.Digest == channel.ContentDigest([]byte("http://site.test/check?ip="+ip)) {
			t.Error("the digest is that of the address")
		}
	}
	if len(marked) > 0 {
		t.Errorf("%v were not fetched", marked)
	}
	if n := report.Errors["skipped-visitor"]; n != 6 || own.Shows([]byte(fmt.Sprint(report.Inter))) {
		t.Errorf("%d skipped, inter %q", n, report.Inter)
	}
}

// TestSiteAtTheVisitorsAddress crawls a site that is served from the address by which others see the volunteer, as one at home is: all of it.
func TestSiteAtTheVisitorsAddress(t *testing.T) {
	const origin = "http://81.2.69.142:8080"
	own := redact.New(netip.MustParseAddr("81.2.69.142"))
	cfg, s := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/next">next</a><a href="/moved">moved</a><a href="/for/81.2.69.142">you</a>`)
	}))
	cfg.Header.Host, cfg.Body.Scope.Host, cfg.Body.Seeds = origin, origin, []string{origin + "/"}
	cfg.Own = func() *redact.Finder { return own }
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range s.pages() {
		got = append(got, p.URL[len(origin):])
	}
	slices.Sort(got)
	if want := []string{"/", "/moved", "/next"}; !slices.Equal(got, want) || report.Errors["skipped-visitor"] != len(want) {
		t.Errorf("pages %q, %d links skipped; want %q, and one of each", got, report.Errors["skipped-visitor"], want)
	}
}
