package crawl

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestLinkHeaders reads Link fields as hosts write them (RFC 8288, section 3 and appendix B).
func TestLinkHeaders(t *testing.T) {
	for _, c := range []struct {
		fields []string
		links  string // behind the page's own /0
		feeds  string
	}{
		{[]string{`</1>; rel=next`}, "/1", ""}, {[]string{`</1>;rel="prev"`, `<2>; REL=Previous`}, "/1 /d/2", ""}, {[]string{`<http://other.test/1>; rel="canonical"`}, "http://other.test/1", ""},
		{[]string{`</1>; rel="next", </2>; rel="prev";title="a, b; rel=x",</3>;rel=canonical`}, "/1 /2 /3", ""}, {[]string{`</1>; title="say \"rel=no\", </no>; rel=next"; rel=next`}, "/1", ""},
		{[]string{`</1,2;3>; rel=next`}, "/1,2;3", ""}, {[]string{` , ,< /1 > ; rel = "start next" , `}, "/1", ""}, {[]string{`<>; rel=next`, `<?p=2>; rel=next`}, "/d/p?p=2", ""},
		{[]string{`</no>; rel=stylesheet`, `</no>; rel=preload; as=style`, `</no>; rel=sitemap`, `</no>; rel="https://api.w.org/"`, `</no>`, `</no>; rev=next`, `</no>; rel=nextly`}, "", ""},
		{[]string{`</de>; rel=alternate; hreflang=de`, `</no>; rel=alternate; type="application/json"`, `</no>; rel="alternate stylesheet"; hreflang=fr`}, "/de", ""},
		{[]string{`</feed>; rel=alternate; type="application/rss+xml"`}, "/feed", "/feed"}, {[]string{`</no>; rel=next; anchor="/x"`}, "", ""}, {[]string{`</1>; rel=next; rel=stylesheet`, `</no>; rel=preload; rel=next`}, "/1", ""},
		{[]string{`</0>; rel=next`, `</1>; rel=next, </1>; rel=canonical`}, "/1", ""}, {[]string{`nonsense, </1>; rel=next`}, "/1", ""}, {[]string{`</no; rel=next`, `</1>; rel=next`}, "/1", ""},
		{[]string{`</1>; rel="next`}, "/1", ""}, {[]string{`</1>; =; ;; rel=next; x`, `</no> rel`}, "/1", ""}, {[]string{"</caf\xe9>; rel=next"}, "/caf%E9", ""}, {[]string{`<http://[>; rel=next`, `<mailto:x@y.test>; rel=next`}, "", ""},
	} {
		links, feeds := withHeader([]string{"http://site.test/0"}, nil, &response{it: item{url: "http://site.test/d/p"}, header: http.Header{"Link": c.fields}})
		short := func(urls []string) string { return strings.ReplaceAll(strings.Join(urls, " "), "http://site.test", "") }
		if got := short(links[1:]); got != c.links || short(feeds) != c.feeds {
			t.Errorf("%q: %q and feeds %q, want %q and %q", c.fields, got, short(feeds), c.links, c.feeds)
		}
	}
}

// TestLinksOfAHeaderAreFollowed crawls by them, also from what is no HTML, but not where the header asks not to.
func TestLinksOfAHeaderAreFollowed(t *testing.T) {
	mux := http.NewServeMux()
	page := func(at, contentType, link, asks string) {
		mux.HandleFunc(at, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h["Content-Type"], h["Link"] = []string{contentType}, []string{link}
			if asks != "" {
				h.Set("X-Robots-Tag", asks)
			}
			fmt.Fprint(w, "text")
		})
	}
	page("/{$}", "text/html", `</2>; rel="next", </document>; rel=alternate; hreflang=fr`, "")
	page("/2", "text/html", `</no>; rel="next"`, "nofollow")
	page("/document", "application/pdf", `</page>; rel="canonical"`, "")
	page("/page", "text/html", `<http://other.test/>; rel="canonical"`, "otherbot: nofollow")
	cfg, s := task(t, mux)
	r := run(t, cfg)
	want := []string{"http://site.test/", "http://site.test/2", "http://site.test/document", "http://site.test/page"}
	if !slices.Equal(s.urls(), want) || r.Errors["skipped-nofollow"] != 1 || !slices.Equal(r.Inter, []string{"http://other.test/"}) {
		t.Errorf("fetched %q, reported %q, %v", s.urls(), r.Inter, r.Errors)
	}
}

// FuzzLinkHeader: each link has a target that stands in the field, and there are not too many.
func FuzzLinkHeader(f *testing.F) {
	f.Add(`</1>; rel="a \"b\"", <2>;rel=next`)
	f.Add(`<,<>;="\`)
	f.Fuzz(func(t *testing.T, field string) {
		links := headerLinks(http.Header{"Link": {field, field}})
		for _, l := range links {
			if !strings.Contains(field, l.target) {
				t.Errorf("%q has no %q", field, l.target)
			}
		}
		if len(links) > maxHeaderLinks {
			t.Errorf("%d links", len(links))
		}
	})
}
