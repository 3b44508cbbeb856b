package crawl

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"testing"

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
