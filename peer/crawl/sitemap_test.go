package crawl

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"shoal/channel"
)

func TestSitemaps(t *testing.T) {
	var order []string
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, `<urlset><url><loc>/from-gzip</loc></url></urlset>`)
	z.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "Sitemap: /index.xml\nSitemap: http://127.0.0.1:1/inside.xml\nSitemap: http://other.test/s.xml\nSitemap: file:///etc/passwd\nUser-agent: *\nDisallow: /no\n")
	})
	mux.HandleFunc("/index.xml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, `<?xml version="1.0"?><sitemapindex xmlns="x"><sitemap><loc>http://site.test/pages.xml</loc></sitemap><sitemap><loc>/z.xml.gz</loc></sitemap><sitemap><loc>/index.xml</loc></sitemap></sitemapindex>`)
	})
	mux.HandleFunc("/pages.xml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/xml")
		fmt.Fprint(w, `<urlset><url><loc>http://site.test/old</loc><lastmod>2001-01-01</lastmod></url>
			<url> <loc> <![CDATA[ http://site.test/new?a=1&b=2 ]]> </loc> <lastmod>2024-05-06T07:08:09+02:00</lastmod></url>
			<url><loc>http://site.test/entities?a=1&amp;b=2</loc></url><url><loc>/no</loc></url><url><loc>http://elsewhere.test/</loc></url><url><loc>http://[bad/</loc></url>`)
	})
	mux.HandleFunc("/z.xml.gz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-gzip")
		w.Write(zipped.Bytes())
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		order = append(order, r.URL.RequestURI())
		hypertext("page "+r.URL.RequestURI())(w, r)
	})
	cfg, s := task(t, mux)
	r := run(t, cfg)
	want := []string{"/", "/new?a=1&b=2", "/old", "/entities?a=1&b=2", "/from-gzip"}
	if !slices.Equal(order, want) || len(s.pages()) != 5 {
		t.Errorf("fetched %q, want %q; %v", order, want, r.Errors)
	}
	if r.Errors["skipped-robots"] != 1 {
		t.Errorf("%v", r.Errors)
	}
}

func TestFeeds(t *testing.T) {
	rss := `<?xml version="1.0"?><rss><channel><link>http://site.test/</link><item><link>http://site.test/a?x=1&amp;y=2</link></item><item><link><![CDATA[/b]]></link></item></channel></rss>`
	atom := `<feed xmlns="a"><link rel="self" href="/feed"/><entry><link href='/c'/></entry></feed>`
	if got := feedLinks([]byte(rss), "http://site.test/rss"); !slices.Equal(got, []string{"http://site.test/", "http://site.test/a?x=1&y=2", "http://site.test/b"}) {
		t.Errorf("%q", got)
	}
	if got := feedLinks([]byte(atom), "http://site.test/feed"); !slices.Equal(got, []string{"http://site.test/feed", "http://site.test/c"}) {
		t.Errorf("%q", got)
	}
	if !isFeed("application/rss+xml", []byte(rss)) || !isFeed("application/xml", []byte(atom)) || isFeed("text/html", []byte(rss)) || isFeed("text/xml", []byte("<urlset>")) {
		t.Error("isFeed")
	}
}

func FuzzSitemap(f *testing.F) {
	f.Add([]byte(`<urlset><url><loc>http://a.test/</loc><lastmod>2001</lastmod></url></urlset>`))
	f.Add([]byte("http://a.test/\nhttp://b.test/\n"))
	f.Add([]byte(`<rss><link href="x"><link>y</link`))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, _ := parseSitemap(b, "http://site.test/s.xml", 100)
		for _, e := range entries {
			if c, err := channel.Canonical(e.url); err != nil || c != e.url {
				t.Errorf("%q is not canonical", e.url)
			}
		}
		if len(entries) > 100 {
			t.Error("too many")
		}
		feedLinks(b, "http://site.test/feed")
		unzipped(b)
	})
}

func FuzzPage(f *testing.F) {
	f.Add([]byte(`<base href="/x/"><a href="y">z</a><meta name=robots content=none><link rel=canonical href=c>`), "text/html")
	f.Add([]byte("<meta charset=windows-1251><a href='\xff?\xe0'>"), "text/html; charset=koi8-r")
	f.Add([]byte("<script><a href=x>"), "")
	f.Fuzz(func(t *testing.T, b []byte, contentType string) {
		var p page
		before := bytes.Clone(b)
		p.read("http://site.test/a/b", b, contentType, "shoal", true)
		if !bytes.Equal(b, before) {
			t.Error("the document was changed, which is archived as it came")
		}
		for _, u := range p.links {
			if c, err := channel.Canonical(u); err != nil || c != u {
				t.Errorf("%q is not canonical", u)
			}
		}
	})
}
