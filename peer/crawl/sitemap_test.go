package crawl

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/sitemap"
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
	rss := `<?xml version="1.0"?><rss><channel><link>http://site.test/</link><item><link>http://site.test/a?x=1&amp;y=2</link><pubDate>Mon, 06 May 2024 09:08:09 +0200</pubDate></item><item><link><![CDATA[/b]]></link></item></channel></rss>`
	atom := `<feed xmlns="a"><link rel="self" href="/feed"/><link href="/"/><updated>2020-01-01T00:00:00Z</updated><entry><updated>2024-05-06T07:08:09Z</updated><link href='/c'/></entry></feed>`
	day, year := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		body, base string
		want       []listed
	}{
		{rss, "http://site.test/rss", []listed{{url: "http://site.test/"}, {url: "http://site.test/a?x=1&y=2", changed: moment{day, day}}, {url: "http://site.test/b"}}},
		{atom, "http://site.test/feed", []listed{{url: "http://site.test/", changed: moment{year, year}}, {url: "http://site.test/c", changed: moment{day, day}}}},
	} {
		got := feedEntries("application/xml", []byte(c.body), c.base)
		if !slices.EqualFunc(got, c.want, func(a, b listed) bool {
			return a.url == b.url && a.changed.from.Equal(b.changed.from) && a.changed.to.Equal(b.changed.to)
		}) {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
	for _, c := range [][2]string{{"text/plain", rss}, {"text/html", "<p>" + rss}, {"text/xml", "<urlset><url><loc>/a</loc></url></urlset>"}, {"image/svg+xml", "<svg><link>/a</link></svg>"}} {
		if got := feedEntries(c[0], []byte(c[1]), "http://site.test/"); got != nil {
			t.Errorf("%s of %s: %v", c[1], c[0], got)
		}
	}
}

// TestBrokenOffSitemap: what came of a sitemap whose connection broke off counts, and so does the failure.
func TestBrokenOffSitemap(t *testing.T) {
	cfg, s := rawSite(t, map[string]string{
		"/robots.txt": "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nSitemap: /s.xml",
		"/s.xml":      "HTTP/1.1 200 OK\r\nContent-Length: 900\r\nConnection: close\r\n\r\n<urlset><url><loc>/a</loc></url><url><loc>/b",
		"/a":          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
	})
	if r := run(t, cfg); !slices.Contains(s.urls(), "http://site.test/a") || slices.Contains(s.urls(), "http://site.test/b") || r.Errors["sitemap"] != 1 {
		t.Errorf("pages %q, errors %v", s.urls(), r.Errors)
	}
}

// TestBases: a feed's relative URLs are relative to its xml:base.
func TestBases(t *testing.T) {
	const feed = `<feed xml:base="http://site.test/f/"><entry xml:base="e/"><link href="a"/></entry><entry xml:base="http://["><link href="/b"/></entry></feed>`
	var got []string
	for _, e := range feedEntries("application/atom+xml", []byte(feed), "http://other.test/feed") {
		got = append(got, e.url)
	}
	if want := []string{"http://site.test/f/e/a", "http://site.test/b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// anyPage takes all pages.
func anyPage(u string) (string, bool) { return u, true }

func FuzzSitemap(f *testing.F) {
	f.Add([]byte(`<urlset><url><loc>http://a.test/</loc><lastmod>2001</lastmod></url></urlset>`))
	f.Add([]byte("http://a.test/\nhttp://b.test/\n"))
	f.Add([]byte(`<rss><link href="x"><link>y</link`))
	f.Fuzz(func(t *testing.T, b []byte) {
		read := entryReader{room: 100, most: 1000, gen: channel.Gen(len(b)), wanted: anyPage}
		pages, sitemaps := read.entries(sitemap.Open(b, "text/xml"), "http://site.test/s.xml")
		for _, e := range pages {
			if c, err := channel.Canonical(e.url); err != nil || c != e.url {
				t.Errorf("%q is not canonical", e.url)
			}
		}
		if len(pages) > 100 || len(pages)+len(sitemaps) > 1000 || read.room < 0 || read.most < 0 {
			t.Error("too many")
		}
		feedEntries("text/xml; charset=utf-8", b, "http://site.test/feed")
		unzipped(b, channel.Gen(len(b)))
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

// TestSignals: what a sitemap calls new or changed is fetched first and whole, what it calls unchanged last; a feed that a page names is
// fetched next, and with it what it calls new. The report counts how often that was right.
func TestSignals(t *testing.T) {
	for _, budget := range []int{0, 6} {
		var order, conditional []string
		mux := http.NewServeMux()
		mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "Sitemap: /s.xml\n") })
		mux.HandleFunc("/s.xml", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `<urlset><url><loc>/stale</loc><lastmod>2024-05-01</lastmod></url><url><loc>/day</loc><lastmod>2024-05-06</lastmod></url>
				<url><loc>/changed</loc><lastmod>2024-05-07</lastmod></url><url><loc>/new</loc></url></urlset>`)
		})
		mux.HandleFunc("/feed", func(w http.ResponseWriter, _ *http.Request) {
			order = append(order, "/feed")
			w.Header().Set("Content-Type", "application/rss+xml")
			fmt.Fprint(w, `<rss><item><link>/story</link></item><item><link>/plain</link></item></rss>`)
		})
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			order = append(order, r.URL.Path)
			if r.Header.Get("If-Modified-Since") != "" {
				conditional = append(conditional, r.URL.Path)
				w.WriteHeader(http.StatusNotModified)
				return
			}
			hypertext(`page `+r.URL.Path+` <link rel="alternate" type="application/rss+xml" href="/feed"><a href="/plain">p</a>`)(w, r)
		})
		cfg, _ := task(t, mux)
		cfg.Header.Budget = budget
		for _, path := range []string{"/", "/stale", "/day", "/changed", "/plain"} {
			h := channel.URLHash("http://site.test" + path)
			cfg.Body.Digests = append(cfg.Body.Digests, channel.PageDigest{URL: h, Content: 1})
			if path != "/" {
				cfg.Body.Validators = append(cfg.Body.Validators, channel.Validator{URL: h, LastModified: "Mon, 06 May 2024 12:00:00 GMT"})
			}
			cfg.Resume.Frontier = append(cfg.Resume.Frontier, channel.Frontier{URL: "http://site.test" + path})
		}
		r := run(t, cfg)
		for _, pair := range [][2]string{{"/changed", "/"}, {"/new", "/"}, {"/feed", "/day"}, {"/story", "/plain"}, {"/plain", "/stale"}} {
			first, second := slices.Index(order, pair[0]), slices.Index(order, pair[1])
			if first < 0 && pair[0] != "/plain" || second >= 0 && first > second {
				t.Errorf("fetched %q: %s is to come before %s", order, pair[0], pair[1])
			}
		}
		if slices.Contains(order, "/stale") != (budget == 0) {
			t.Errorf("fetched %q with a budget of %d", order, budget)
		}
		if slices.Contains(conditional, "/changed") || budget == 0 && !slices.Equal(conditional, []string{"/day", "/plain", "/stale"}) {
			t.Errorf("asked with validators for %q", conditional)
		}
		if r.Errors["signalled"] != 3 || r.Errors["signal-right"] != 3 {
			t.Errorf("%v", r.Errors)
		}
	}
}

func TestMoments(t *testing.T) {
	for text, want := range map[string]string{
		"2024-05-06": "2024-05-06T00:00:00Z 24h0m0s", "2024-05-06T07:08+02:00": "2024-05-06T05:08:00Z 1m0s", "2024": "2024-01-01T00:00:00Z 8784h0m0s",
		" 2024-05-06T07:08:09.5Z ": "2024-05-06T07:08:09Z 0s", "Mon, 6 May 2024 07:08:09 GMT": "2024-05-06T07:08:09Z 0s",
		"06 May 2024 07:08:09 +0100": "2024-05-06T06:08:09Z 0s", "soon": "0001-01-01T00:00:00Z 0s", "": "0001-01-01T00:00:00Z 0s",
	} {
		m := momentOf(text)
		if got := m.from.UTC().Format(time.RFC3339) + " " + m.to.Sub(m.from).String(); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestForbiddenSeedsCostNoSitemaps: sitemaps are read whichever seeds robots.txt forbids, and what they list is fetched where it is allowed.
func TestForbiddenSeedsCostNoSitemaps(t *testing.T) {
	for _, c := range []struct {
		seeds []string
		rules string
		want  []string
	}{
		{[]string{"/", "/no"}, "Disallow: /no", []string{"/", "/listed"}},
		{[]string{"/no"}, "Disallow: /no", []string{"/listed"}},
		{[]string{"/"}, "Disallow: /$", []string{"/listed", "/no"}},
		{[]string{"/"}, "Disallow: /", nil},
		{[]string{"/"}, "Disallow: /\nAllow: /s.xml", nil},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "Sitemap: /s.xml\nUser-agent: *\n%s\n", c.rules)
		})
		mux.HandleFunc("/s.xml", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `<urlset><url><loc>/listed</loc></url><url><loc>/no</loc></url></urlset>`)
		})
		mux.HandleFunc("/", hypertext("page"))
		cfg, s := task(t, mux)
		cfg.Body.Seeds = nil
		for _, path := range c.seeds {
			cfg.Body.Seeds = append(cfg.Body.Seeds, cfg.Header.Host+path)
		}
		r := run(t, cfg)
		var got []string
		for _, u := range s.urls() {
			got = append(got, u[len(cfg.Header.Host):])
		}
		if !slices.Equal(got, c.want) || (r.Robots == robotsDisallowed) != (c.want == nil) {
			t.Errorf("seeds %q, %q: fetched %q, want %q; robots.txt %s", c.seeds, c.rules, got, c.want, r.Robots)
		}
	}
}
