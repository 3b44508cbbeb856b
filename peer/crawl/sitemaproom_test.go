package crawl

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"shoal/channel"
	"shoal/channel/sitemap"
)

// document writes a sitemap, or an index with the tags "sitemapindex" and "sitemap", of n paths.
func document(root, entry, path string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<%s>", root)
	for k := range n {
		fmt.Fprintf(&b, "<%s><loc>http://site.test%s%d</loc></%s>", entry, path, k, entry)
	}
	fmt.Fprintf(&b, "</%s>", root)
	return b.String()
}

// TestPagesInSitemapsOverSeveralCrawls: of more pages than one crawl has room for each crawl takes others, until all have been taken: those behind
// many that are not the channel's, those in other files than the first, and those at the end of a long file.
func TestPagesInSitemapsOverSeveralCrawls(t *testing.T) {
	const path = "/shop/"
	pages := func(of string, n int) string { return document("urlset", "url", path+of, n) }
	for _, c := range []struct {
		name         string
		files        map[string]string
		first        int // files named in robots.txt: /0, /1 and so on
		total, turns int
	}{
		{"behind others' pages", map[string]string{"/0": strings.TrimSuffix(document("urlset", "url", "/blog/", 1500), "</urlset>") + strings.TrimPrefix(pages("", 200), "<urlset>")}, 1, 200, 1},
		{"in five files", map[string]string{"/0": pages("a", 1000), "/1": pages("b", 1000), "/2": pages("c", 1000), "/3": pages("d", 1000), "/4": pages("e", 1000)}, 5, 5000, 10},
		{"in a long file", map[string]string{"/0": pages("", 12_000)}, 1, 12_000, 24},
		{"in two long files of an index", map[string]string{"/0": document("sitemapindex", "sitemap", "/s", 2), "/s0": pages("a", 5000), "/s1": pages("b", 5000)}, 1, 10_000, 30},
		{"in two indexes of long files", map[string]string{"/0": document("sitemapindex", "sitemap", "/s", 2), "/1": document("sitemapindex", "sitemap", "/t", 2),
			"/s0": pages("a", 2000), "/s1": pages("b", 2000), "/t0": pages("c", 2000), "/t1": pages("d", 2000)}, 2, 8000, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				switch doc, ok := c.files[r.URL.Path]; {
				case r.URL.Path == "/robots.txt":
					for k := range c.first {
						fmt.Fprintf(w, "Sitemap: /%d\n", k)
					}
				case ok:
					fmt.Fprint(w, doc)
				default:
					hypertext("page")(w, r)
				}
			})
			found := map[string]bool{}
			turns := 0
			for gen := channel.Gen(7); len(found) < c.total && turns < c.turns; gen++ {
				cfg, s := task(t, mux)
				cfg.Header.Gen, cfg.Header.Budget = gen, 1
				cfg.Body.Scope = channel.Scope{Kind: channel.Directory, Host: "http://site.test", Dirs: []string{path}}
				cfg.Body.Seeds = []string{"http://site.test" + path}
				run(t, cfg)
				before := len(found)
				for _, f := range s.resume().Frontier {
					found[f.URL] = true
				}
				if n := len(found) - before; n > 1000 {
					t.Errorf("%d pages in one crawl", n)
				}
				turns++
			}
			if len(found) < c.total {
				t.Errorf("%d of %d pages found in %d crawls", len(found), c.total, turns)
			}
		})
	}
}

// TestMoreEntriesThanAFileMayHave: those beyond the number that are read of one file have their turn, too.
func TestMoreEntriesThanAFileMayHave(t *testing.T) {
	const total = maxSitemapURLs + maxSitemapURLs/2
	var list strings.Builder
	for k := range total {
		fmt.Fprintf(&list, "http://site.test/%d\n", k)
	}
	found := map[string]bool{}
	crawls := 0
	for gen := channel.Gen(7); len(found) < total && crawls < 10; gen++ {
		pages, _ := (&entryReader{room: total, most: maxEntries, gen: gen, wanted: anyPage}).entries(sitemap.Open([]byte(list.String()), "text/plain"), "")
		if len(pages) != maxSitemapURLs {
			t.Errorf("%d pages read of one file", len(pages))
		}
		for _, p := range pages {
			found[p.url] = true
		}
		crawls++
	}
	if len(found) < total {
		t.Errorf("%d of %d pages found in %d crawls", len(found), total, crawls)
	}
}

// TestLongIndexes: all files that an index names have their turn, also of many that robots.txt names, and whichever generations crawl.
func TestLongIndexes(t *testing.T) {
	for _, c := range []struct {
		indexes, files int
		step           channel.Gen
	}{{1, 300, 1}, {4, 30, 1}, {30, 30, 1}, {20, 15, 7}, {13, 20, 1}, {25, 6, 1}, {16, 16, 3}} {
		var named []string
		for k := range c.indexes {
			named = append(named, fmt.Sprintf("index%d", k))
		}
		read := map[string]bool{}
		total := c.indexes * (c.files + 1)
		crawls := 0
		for gen := channel.Gen(7); len(read) < total && crawls < 2*total; gen += c.step {
			q := newSitemapQueue(gen, maxSitemaps)
			q.add(named)
			for {
				u, ok := q.next()
				if !ok {
					break
				}
				read[u] = true
				var files []string
				for k := range c.files {
					files = append(files, fmt.Sprintf("%s/%d", u, k))
				}
				if strings.HasPrefix(u, "index") && !strings.Contains(u, "/") {
					q.add(files)
				}
			}
			crawls++
		}
		if len(read) < total {
			t.Errorf("%d indexes of %d files, each %d. generation: %d of %d files read in %d crawls", c.indexes, c.files, c.step, len(read), total, crawls)
		}
	}
}

// TestManyNamesOfSitemaps: what the queue holds is bounded, and it still goes through a list of which it holds a part.
func TestManyNamesOfSitemaps(t *testing.T) {
	q := newSitemapQueue(7, maxSitemaps)
	for i := range 4 {
		var list []string
		for k := range maxSitemapURLs {
			list = append(list, fmt.Sprint(i, "/", k))
		}
		q.add(list)
	}
	if len(q.asked) != maxSitemapURLs {
		t.Errorf("%d names held", len(q.asked))
	}
	for n := range maxSitemaps + 1 {
		if _, ok := q.next(); ok != (n < maxSitemaps) {
			t.Errorf("file %d: %v", n, ok)
		}
	}
}

// TestEntriesOfOthersAreBounded: what a crawl reads of sitemaps that list no page of the channel is bounded, of all files together.
func TestEntriesOfOthersAreBounded(t *testing.T) {
	list := sitemap.Open([]byte(document("urlset", "url", "/blog/", 1000)), "")
	index := sitemap.Open([]byte(document("sitemapindex", "sitemap", "/", 1000)), "")
	asked := 0
	read := entryReader{room: 1000, most: 3500, gen: 7, wanted: func(u string) (string, bool) {
		asked++
		return u, false
	}}
	files := 0
	for range 5 {
		pages, more := read.entries(list, "http://site.test/s.xml")
		_, others := read.entries(index, "http://site.test/s.xml")
		if files += len(others); len(pages)+len(more) > 0 {
			t.Errorf("%d pages and %d sitemaps taken", len(pages), len(more))
		}
	}
	if asked != 2000 || files != 1500 || read.most != 0 || read.room != 1000 {
		t.Errorf("%d pages and %d sitemaps looked at, room for %d and %d more entries", asked, files, read.room, read.most)
	}
}
