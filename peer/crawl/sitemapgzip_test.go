package crawl

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"shoal/channel"
	"shoal/channel/sitemap"
)

// TestLongZippedSitemaps: of a file that holds more than one crawl decompresses each crawl reads another part, until all has been read. Parts begin at whole
// entries, and the beginning is read in every crawl.
func TestLongZippedSitemaps(t *testing.T) {
	const total = 40_000
	padding := strings.Repeat("x", 600)
	for name, c := range map[string][3]string{
		"a sitemap":        {`<?xml version="1.0"?><s:urlset xmlns:s="x">`, "<s:url><s:loc>http://site.test/%d</s:loc><!-- " + padding + " --></s:url>\n", "</s:urlset>"},
		"a list":           {"", "http://site.test/%d\n# " + padding + "\n", ""},
		"a sitemaps index": {"<sitemapindex>", "<sitemap><loc>http://site.test/%d</loc><x>" + padding + "</x></sitemap>", "</sitemapindex>"},
	} {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		fmt.Fprint(z, c[0])
		for k := range total {
			fmt.Fprintf(z, c[1], k)
		}
		fmt.Fprint(z, c[2])
		z.Close()
		if zipped.Len() > maxSitemap {
			t.Fatal(zipped.Len())
		}
		var wrong []string
		is := map[string]bool{}
		for k := range total {
			is[fmt.Sprintf("http://site.test/%d", k)] = true
		}
		found := map[string]bool{}
		crawls := 0
		for gen := channel.Gen(1); len(found) < total && crawls < 12; gen++ {
			text := unzipped(zipped.Bytes(), gen)
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
}
