package crawl

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// TestTypesAsTheyAreMet: a type that is written badly, or twice, does not cost a page or its links.
func TestTypesAsTheyAreMet(t *testing.T) {
	const markup, plain = "<!DOCTYPE html><a href=/x>x</a>", "no markup"
	for _, c := range []struct {
		contentType, body string
		html, wanted      bool
	}{
		{"text/html", markup, true, true}, {"TEXT/HTML;charset=x", markup, true, true}, {" text/html ", markup, true, true}, {"html", plain, true, true}, {"text/html charset=utf-8", plain, true, true},
		{"text/html, text/html", plain, true, true}, {"text/html; charset=utf-8, text/html", plain, true, true}, {"text/plain, text/html", plain, true, true}, {"text/html, */*", plain, true, true},
		{`text/html; x="a, text/plain; b"`, plain, true, true}, {`text/html;x=", text/plain`, plain, true, true}, {`text/plain; x="\", text/html"`, markup, false, true},
		{"text/html,", plain, true, true}, {"text/html, nonsense", plain, true, true}, {"application/xhtml+xml", plain, true, true},
		{"unknown/unknown", markup, true, true}, {"application/unknown", plain, false, true}, {"application/vnd.wap.xhtml+xml", markup, true, true},
		{"*/*", markup, true, true}, {"*/*", plain, false, true}, {"", markup, true, true}, {"nonsense", markup, true, true}, {"text/", markup, true, true}, {"*/*; q=1", markup, true, true},
		{"text/plain", markup, false, true}, {"text/html, text/plain", markup, false, true}, {"image/png", markup, false, false}, {"text/html, image/png", markup, false, false},
		{"application/octet-stream", markup, false, false}, {"image/svg+xml", markup, false, false}, {"application/rss+xml", plain, false, true},
	} {
		if html, wants := isHTML(c.contentType, []byte(c.body)), wanted(c.contentType); html != c.html || wants != c.wanted {
			t.Errorf("%q: HTML %v, wanted %v", c.contentType, html, wants)
		}
	}
	if got := feedEntries("*/*", []byte(`<?xml version="1.0"?><rss><item><link>/a</link></item></rss>`), "http://h.test/"); len(got) != 1 {
		t.Errorf("a feed without a type: %v", got)
	}
}

// TestFeedsWithoutAType: a feed without a type is known by its first element, with an XML declaration before it or not.
func TestFeedsWithoutAType(t *testing.T) {
	const rss = "<rss version='2.0'><item><link>/a</link></item></rss>"
	for body, feed := range map[string]bool{
		rss: true, "\xef\xbb\xbf \n<?xml version='1.0'?><!-- <html> --><!DOCTYPE rss>\n" + rss: true, "<feed><link href='/a'/></feed>": true,
		"<rdf:RDF xmlns='x'><item><link>/a</link></item></rdf:RDF>": true, "<html>" + rss: false, "<rssx><link>/a</link>": false, "<!-- " + rss: false, "": false,
	} {
		for _, contentType := range []string{"", "*/*"} {
			if got := len(feedEntries(contentType, []byte(body), "http://h.test/")) == 1; got != feed || feed && isHTML(contentType, []byte(body)) {
				t.Errorf("%q of %q: feed %v, HTML %v", contentType, body, got, isHTML(contentType, []byte(body)))
			}
		}
	}
}

// TestLocationsAsTheyAreMet: a redirect leads where browsers go, however its target is written.
func TestLocationsAsTheyAreMet(t *testing.T) {
	for _, c := range [][2]string{
		{"/100%", "http://site.test/100%25"}, {"/a%zz", "http://site.test/a%25zz"}, {"/%", "http://site.test/%25"}, {`\\site.test\x`, "http://site.test/x"}, {`http:\\site.test\x`, "http://site.test/x"},
		{`http://site.test\x`, "http://site.test/x"}, {`/a\b`, "http://site.test/a/b"}, {"/a b", "http://site.test/a%20b"}, {"/é", "http://site.test/%C3%A9"}, {"/caf\xe9", "http://site.test/caf%E9"},
		{"http://site.test:80/x", "http://site.test/x"}, {"x", "http://site.test/d/x"}, {"?a=%", "http://site.test/d/p?a=%25"}, {"http://ẞ.test/", "http://xn--zca.test/"}, {"/[x]|y", "http://site.test/[x]|y"},
		{"", ""}, {"http://", ""}, {"http://a b/", ""}, {"javascript:x", ""}, {"http://[", ""},
	} {
		got, err := location(&response{it: item{url: "http://site.test/d/p"}, header: http.Header{"Location": {c[0]}}})
		if got != c[1] || (err == nil) != (c[1] != "") {
			t.Errorf("%q: %q, want %q (%v)", c[0], got, c[1], err)
		}
	}
	if got, err := location(&response{it: item{url: "http://site.test/"}, header: http.Header{"Location": {"", "/a", "/b"}}}); got != "http://site.test/a" {
		t.Errorf("behind an empty field: %q (%v)", got, err)
	}
}

// TestOddRedirectsAreFollowed crawls through them.
func TestOddRedirectsAreFollowed(t *testing.T) {
	mux := http.NewServeMux()
	to := map[string]string{"/1": "/100%", "/2": "/a%zz", "/3": `http://site.test\x`}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if at := to[r.URL.Path]; at != "" {
			w.Header()["Location"] = []string{at}
			w.WriteHeader(http.StatusFound)
			return
		}
		w.Header()["Content-Type"] = []string{"text/html, text/html"}
		fmt.Fprint(w, "<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>")
	})
	cfg, s := task(t, mux)
	r := run(t, cfg)
	for _, u := range []string{"http://site.test/100%25", "http://site.test/a%25zz", "http://site.test/x"} {
		if !slices.Contains(s.urls(), u) || r.Errors["bad-redirect"] > 0 {
			t.Errorf("%s not among %q: %v", u, s.urls(), r.Errors)
		}
	}
}
