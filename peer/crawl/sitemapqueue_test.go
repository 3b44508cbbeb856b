package crawl

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
)

// TestManySitemapsOverSeveralCrawls: of more files than one crawl reads each crawl reads others, until all have been read, whether robots.txt
// names them, an index does, or many indexes do.
func TestManySitemapsOverSeveralCrawls(t *testing.T) {
	for _, c := range []struct {
		name                  string
		indexes, files, turns int // files of each index, or named in robots.txt
	}{{"in robots.txt", 0, 15, 2}, {"in robots.txt", 0, 37, 5}, {"in robots.txt", 0, 250, 28}, {"in an index", 1, 100, 13}, {"in three indexes", 3, 12, 12}, {"in fifteen indexes", 15, 2, 25}} {
		t.Run(fmt.Sprintf("%d %s", c.files, c.name), func(t *testing.T) {
			read, most := map[string]int{}, 0
			mux := http.NewServeMux()
			list := func(of string) (out []string) {
				for k := range c.files {
					out = append(out, fmt.Sprintf("/%s-%d.xml", of, k))
				}
				return out
			}
			mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
				for k := range c.indexes {
					fmt.Fprintf(w, "Sitemap: /index%d.xml\n", k)
				}
				if c.indexes == 0 {
					fmt.Fprint(w, "Sitemap: "+strings.Join(list("s"), "\nSitemap: ")+"\n")
				}
			})
			fetched := 0
			mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				name, xml := strings.CutSuffix(r.URL.Path, ".xml")
				if !xml {
					hypertext("page")(w, r)
					return
				}
				fetched++
				if index, ok := strings.CutPrefix(name, "/index"); ok {
					fmt.Fprint(w, "<sitemapindex><sitemap><loc>"+strings.Join(list("s"+index), "</loc></sitemap><sitemap><loc>")+"</loc></sitemap></sitemapindex>")
					return
				}
				read[name]++
				fmt.Fprintf(w, "<urlset><url><loc>%s.html</loc></url></urlset>", name)
			})
			total := c.files * max(c.indexes, 1)
			turns := 0
			for gen := channel.Gen(7); len(read) < total && turns < 4*c.turns; gen++ {
				cfg, _ := task(t, mux)
				cfg.Header.Gen = gen
				fetched = 0
				run(t, cfg)
				most = max(most, fetched)
				turns++
			}
			if len(read) < total || turns > c.turns || most > maxSitemaps {
				t.Errorf("%d of %d files read in %d crawls, want all in %d; at most %d files a crawl", len(read), total, turns, c.turns, most)
			}
		})
	}
}

// TestForbiddenSitemapsTakeNoPlace: sitemaps that robots.txt forbids cost a crawl none of those that it may read, and not much time.
func TestForbiddenSitemapsTakeNoPlace(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("User-agent: *\n")
	for k := range 3 * maxSitemaps {
		fmt.Fprintf(&rules, "Sitemap: /no%d.xml\nSitemap: /s%d.xml\n", k, k)
	}
	rules.WriteString("Disallow: /no\n")
	fetched, forbidden := 0, 0
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/robots.txt":
			fmt.Fprint(w, rules.String())
		case strings.HasPrefix(r.URL.Path, "/no"):
			forbidden++
		case strings.HasSuffix(r.URL.Path, ".xml"):
			fetched++
			fmt.Fprint(w, "<urlset><url><loc>/x</loc></url></urlset>")
		default:
			hypertext("page")(w, r)
		}
	})
	cfg, _ := task(t, mux)
	if run(t, cfg); fetched != maxSitemaps || forbidden > 0 {
		t.Errorf("%d sitemaps read, want %d; %d forbidden ones", fetched, maxSitemaps, forbidden)
	}

	rules.Reset()
	rules.WriteString("User-agent: *\n")
	for k := 0; rules.Len() < 480<<10; k++ {
		fmt.Fprintf(&rules, "Disallow: *%d$\nSitemap:/%d\n", k+1_000_000, k+1_000_000)
	}
	begun := time.Now()
	cfg, _ = task(t, mux)
	if r := run(t, cfg); r.Errors["skipped-rules"] == 0 || !r.Truncated {
		t.Errorf("%v for all names: %v", time.Since(begun), r.Errors)
	}
}

// TestFeedsInRobots: robots.txt may name a feed as a sitemap, and a sitemap that lies elsewhere on the host, in an encoding of its own.
func TestFeedsInRobots(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "Sitemap: /feed\nSitemap: /atom\nSitemap: /moved.xml\nSitemap: /latin.xml\n")
	})
	mux.HandleFunc("/feed", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<rss><channel><item><link>/of-rss</link></item></channel></rss>`)
	})
	mux.HandleFunc("/atom", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<feed><entry><link href="/of-atom"/></entry></feed>`)
	})
	mux.HandleFunc("/moved.xml", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/real.xml", http.StatusFound) })
	mux.HandleFunc("/real.xml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<urlset><url><loc/></url><url><loc>/of-sitemap</loc></url></urlset>`)
	})
	mux.HandleFunc("/latin.xml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml; charset=iso-8859-1")
		fmt.Fprint(w, "<urlset><url><loc>/caf\xe9</loc></url></urlset>")
	})
	mux.HandleFunc("/", hypertext("page"))
	cfg, s := task(t, mux)
	run(t, cfg)
	want := []string{"http://site.test/", "http://site.test/caf%C3%A9", "http://site.test/of-atom", "http://site.test/of-rss", "http://site.test/of-sitemap"}
	if !slices.Equal(s.urls(), want) {
		t.Errorf("fetched %q, want %q", s.urls(), want)
	}
}

// TestSitemapsNamedOverHTTP: a site that has moved to https may name its files as they were before; other hosts, other ports and the way back are no files of it.
func TestSitemapsNamedOverHTTP(t *testing.T) {
	of := func(origin string) *session {
		return &session{cfg: &Config{Body: channel.Body{Scope: channel.Scope{Host: origin}}}}
	}
	urls := []string{"http://site.test/a.xml", "https://site.test/b.xml", "http://other.test/c.xml", "http://site.test:8080/d.xml"}
	for origin, want := range map[string][]string{
		"https://site.test": {"https://site.test/a.xml", "https://site.test/b.xml"},
		"http://site.test":  {"http://site.test/a.xml"},
	} {
		if got := of(origin).ownFiles(urls); !slices.Equal(got, want) {
			t.Errorf("of %s: %q, want %q", origin, got, want)
		}
	}
}

// TestSitemapsRedirectedToHTTP: a site that has moved to https may lead from one sitemap to another by http, and list its pages so. Both are read where
// the site is now. Other hosts and ports are not, and a file that leads to itself is asked for once.
func TestSitemapsRedirectedToHTTP(t *testing.T) {
	asked := map[string]int{} // the crawl has one connection
	cfg, s := secure(t, false, "example.com", true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path]++
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprint(w, "Sitemap: /old.xml\nSitemap: /loop.xml\n")
		case "/old.xml":
			http.Redirect(w, r, "http://example.com/new.xml", http.StatusMovedPermanently)
		case "/loop.xml":
			http.Redirect(w, r, "http://example.com/loop.xml", http.StatusMovedPermanently)
		case "/new.xml":
			fmt.Fprint(w, "<urlset><url><loc>http://example.com/page0</loc></url><url><loc>http://example.com:80/page1</loc></url><url><loc>http://example.com:8080/a</loc></url><url><loc>http://other.test/b</loc></url></urlset>")
		default:
			hypertext("page")(w, r)
		}
	}))
	run(t, cfg)
	if want := []string{"https://example.com/", "https://example.com/page0", "https://example.com/page1"}; !slices.Equal(s.urls(), want) || asked["/loop.xml"] != 1 {
		t.Errorf("fetched %q, want %q; asked for %v", s.urls(), want, asked)
	}
}
