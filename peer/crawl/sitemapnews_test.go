package crawl

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"shoal/channel"
)

// TestNewsInEveryCrawl: where sitemaps list more than a crawl has room for, each crawl still fetches the pages of a short file and those at the beginning
// of a long one.
func TestNewsInEveryCrawl(t *testing.T) {
	const path, news = "/shop/", 40
	pages := func(of string, n int) string { return document("urlset", "url", of, n) }
	short, long, others := pages(path+"news", news), pages(path+"old", 5000), pages("/blog/", maxSitemapURLs)
	for _, c := range []struct {
		name  string
		files []string // named in robots.txt: /0, /1 and so on
		index []string // named in the index: /i0, /i1 and so on
		turns channel.Gen
	}{
		{"in the first file", []string{short, long, long, long, long}, nil, 10},
		{"in the last file", []string{long, long, long, long, short}, nil, 10},
		{"in an index", []string{long, document("sitemapindex", "sitemap", "/i", 3)}, []string{long, short, long}, 10},
		{"in a long file", []string{strings.TrimSuffix(short, "</urlset>") + strings.TrimPrefix(long, "<urlset>")}, nil, 10},
		{"in one of long files", []string{long, strings.TrimSuffix(short, "</urlset>") + strings.TrimPrefix(long, "<urlset>"), long}, nil, 10},
		{"behind others' pages", []string{others, others, others, others, short}, nil, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/", hypertext("page"))
			names := "" // each long file has pages of its own
			for k, doc := range c.files {
				mux.HandleFunc(fmt.Sprintf("/%d", k), func(w http.ResponseWriter, _ *http.Request) {
					fmt.Fprint(w, strings.ReplaceAll(doc, "/old", fmt.Sprintf("/old%d-", k)))
				})
				names += fmt.Sprintf("Sitemap: /%d\n", k)
			}
			for k, doc := range c.index {
				mux.HandleFunc(fmt.Sprintf("/i%d", k), func(w http.ResponseWriter, _ *http.Request) {
					fmt.Fprint(w, strings.ReplaceAll(doc, "/old", fmt.Sprintf("/old-i%d-", k)))
				})
			}
			mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, names) })
			for gen := channel.Gen(7); gen < 7+c.turns; gen++ {
				cfg, s := task(t, mux)
				cfg.Header.Gen, cfg.Header.Budget = gen, 250
				cfg.Body.Scope = channel.Scope{Kind: channel.Directory, Host: "http://site.test", Dirs: []string{path}}
				cfg.Body.Seeds = []string{"http://site.test" + path}
				run(t, cfg)
				fetched := 0
				for _, u := range s.urls() {
					if strings.Contains(u, "/news") {
						fetched++
					}
				}
				if fetched < news {
					t.Errorf("generation %d: %d of %d new pages fetched, and %d others", gen, fetched, news, len(s.urls())-fetched)
				}
			}
		})
	}
}

// TestSpareRoom: room that short files leave is used for the pages of long ones, and no more pages are held than there is room for.
func TestSpareRoom(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/", hypertext("page"))
	for k, n := range []int{3000, 100, 3000, 50} {
		mux.HandleFunc(fmt.Sprintf("/%d", k), func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, document("urlset", "url", fmt.Sprintf("/of%d-", k), n))
		})
	}
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "Sitemap: /0\nSitemap: /1\nSitemap: /2\nSitemap: /3\n")
	})
	for gen := channel.Gen(7); gen < 11; gen++ {
		cfg, s := task(t, mux)
		cfg.Header.Gen, cfg.Header.Budget = gen, 1
		run(t, cfg)
		of := map[string]int{}
		for _, f := range s.resume().Frontier {
			name, _, _ := strings.Cut(strings.TrimPrefix(f.URL, "http://site.test"), "-")
			of[name]++
		}
		if of["/of1"] != 100 || of["/of3"] != 50 || min(of["/of0"], of["/of2"]) < 250 || of["/of0"]+of["/of2"] != 850 {
			t.Errorf("generation %d: pages of files: %v", gen, of)
		}
	}
}
