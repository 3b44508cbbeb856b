package crawl

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"shoal/channel"
	"shoal/channel/sitemap"
)

// TestLongSitemaps: of a file with more than one crawl looks at, zipped or not, each crawl reads another part, until all has been read. Parts begin at whole
// entries, and the beginning is read in every crawl.
func TestLongSitemaps(t *testing.T) {
	const total = 40_000
	padding := strings.Repeat("x", 600)
	for name, c := range map[string][3]string{
		"a sitemap":        {`<?xml version="1.0"?><s:urlset xmlns:s="x">`, "<s:url><s:loc>http://site.test/%d</s:loc><!-- " + padding + " --></s:url>\n", "</s:urlset>"},
		"a list":           {"", "http://site.test/%d\n# " + padding + "\n", ""},
		"a sitemaps index": {"<sitemapindex>", "<sitemap><loc>http://site.test/%d</loc><x>" + padding + "</x></sitemap>", "</sitemapindex>"},
	} {
		var text strings.Builder
		fmt.Fprint(&text, c[0])
		for k := range total {
			fmt.Fprintf(&text, c[1], k)
		}
		fmt.Fprint(&text, c[2])
		for form, file := range map[string]string{"zipped": string(gzipped(text.String())), "plain": text.String(), "encoded": hardlyZipped(t, text.String())} {
			readsAll(t, name+", "+form, total, func(gen channel.Gen) []byte {
				resp := &http.Response{Header: http.Header{}, Body: io.NopCloser(strings.NewReader(file))}
				if form == "encoded" {
					resp.Header.Set("Content-Encoding", "gzip")
				}
				var d decoder
				defer d.close()
				var r response
				var err error
				if r.body, r.rest, _, err = d.long(resp, nil, maxSitemap, maxUnzipped); err != nil {
					t.Error(err)
				}
				return partOf(&r, gen)
			})
		}
	}
}

// hardlyZipped is gzip that does not look like a bomb, whatever it holds.
func hardlyZipped(t *testing.T, s string) string {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.HuffmanOnly)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(z, s)
	z.Close()
	return out.String()
}

// readsAll checks that crawls find all entries of a file in the parts that they read of it.
func readsAll(t *testing.T, name string, total int, part func(channel.Gen) []byte) {
	var wrong []string
	is := map[string]bool{}
	for k := range total {
		is[fmt.Sprintf("http://site.test/%d", k)] = true
	}
	found := map[string]bool{}
	crawls := 0
	for gen := channel.Gen(1); len(found) < total && crawls < 12; gen++ {
		text := part(gen)
		if len(text) > maxSitemap {
			t.Errorf("%s: %d octets", name, len(text))
		}
		pages, files := (&entryReader{room: maxSitemapURLs, most: maxEntries, gen: gen, wanted: anyPage}).entries(sitemap.Open(text, ""), "http://site.test/s.xml")
		for _, p := range pages {
			files = append(files, p.url)
		}
		for k := range 2000 {
			if k >= len(files) || files[k] != fmt.Sprintf("http://site.test/%d", k) {
				t.Errorf("%s, generation %d: entry %d is not at the beginning of %d", name, gen, k, len(files))
				break
			}
		}
		for _, u := range files {
			if found[u] = true; !is[u] {
				wrong = append(wrong, u)
			}
		}
		crawls++
	}
	if len(found) != total || len(wrong) > 0 {
		t.Errorf("%s: %d of %d entries found in %d crawls, and %.3q", name, len(found), total, crawls, wrong)
	}
}

// TestLongFilesAreBounded: of a file without an end the protocol's number of octets is read, less of one that hardly packs, and of UTF-16 the beginning.
func TestLongFilesAreBounded(t *testing.T) {
	urls := bytes.Repeat([]byte("http://site.test/a\n"), maxUnzipped/10)
	noise := make([]byte, maxUnzipped)
	state := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(state.Uint32()) | 1
	}
	for name, c := range map[string]struct {
		file     []byte
		from, to int // octets that are read
	}{
		"a list": {urls, maxUnzipped, maxUnzipped}, "noise": {noise, 3 * maxSitemap / 2, 3 * maxSitemap}, "as much as may be": {urls[:maxUnzipped], maxUnzipped, maxUnzipped}, "little": {urls[:maxSitemap], maxSitemap, maxSitemap},
	} {
		read := &counting{r: bytes.NewReader(c.file)}
		var d decoder
		body, rest, truncated, err := d.long(&http.Response{Body: io.NopCloser(read)}, nil, maxSitemap, maxUnzipped)
		if n := len(body) + rest.n; err != nil || n < c.from || n > c.to || len(rest.gzip) > maxSitemap || truncated != (n < len(c.file)) || read.n > n+maxHead {
			t.Errorf("%s: %d and %d octets as %d, %d of %d read, cut %v: %v", name, len(body), rest.n, len(rest.gzip), read.n, len(c.file), truncated, err)
		}
		d.close()
	}
	wide := bytes.Repeat([]byte("h\x00\n\x00"), maxSitemap/2)
	r := response{body: wide[:maxSitemap:maxSitemap], rest: packed{nil, maxSitemap}}
	for gen := range channel.Gen(5) {
		if !bytes.Equal(partOf(&r, gen+1), r.body) {
			t.Errorf("generation %d: not the beginning", gen+1)
		}
	}
}

// TestEndOfALongSitemap crawls a host whose plain sitemap is twice as long as what one crawl looks at.
func TestEndOfALongSitemap(t *testing.T) {
	var text strings.Builder
	text.WriteString("<urlset>")
	for k := range 400 {
		fmt.Fprintf(&text, "<url><loc>/%d</loc><x>%s</x></url>", k, strings.Repeat("x", 50<<10))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "Sitemap: /long\n") })
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text.String()) })
	mux.Handle("/", hypertext("page"))
	found := map[string]bool{}
	for gen := range channel.Gen(6) {
		cfg, s := task(t, mux)
		cfg.Header.Gen, cfg.Header.Budget = gen+1, 1
		cfg.OnVisit = func(v Visit) {
			if strings.HasSuffix(v.URL, "/long") && v.Bytes != text.Len() {
				t.Errorf("%d of %d octets", v.Bytes, text.Len())
			}
		}
		if r := run(t, cfg); r.Errors["sitemap"] > 0 {
			t.Error(r.Errors)
		}
		for _, f := range s.resume().Frontier {
			found[f.URL] = true
		}
	}
	for k := range 400 {
		if u := fmt.Sprintf("http://site.test/%d", k); !found[u] {
			t.Errorf("%s is not found", u)
		}
	}
}
