package crawl

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"

	"shoal/channel"
	"shoal/channel/sitemap"
)

// BenchmarkWorst reads the worst that we know of at two sizes: bytes a second are about the same where nothing is read again and again.
func BenchmarkWorst(b *testing.B) {
	const base = "http://site.test/"
	feed := func(d []byte) { feedEntries("text/xml", append([]byte("<rss>"), d...), base) }
	urls := func(d []byte) {
		(&entryReader{room: maxSitemapURLs, most: maxEntries, gen: 1, wanted: anyPage}).entries(sitemap.Open(d, ""), base)
	}
	html := func(d []byte) { new(page).read(base, d, "text/html", "shoal", true) }
	for _, c := range []struct {
		of   string
		read func([]byte)
	}{
		{"<item>", feed}, {"<entry>", feed}, {"<link>", feed}, {"<link href=x>", feed}, {"<loc>", urls}, {"<loc></loc>", urls}, {"<locus>", urls}, {"<x \"", urls}, {"<loc>&", urls}, {"<loc><!--", urls}, {"<", urls}, {"<item", feed}, {"<link =", feed},
		{"<a", html}, {"<div>", html}, {"<script><!--", html}, {"<!-", html}, {"<a rel=nofollow ", html}, {"&notit", html}, {"<svg><title>", html}, {"<title></titl", html},
	} {
		for _, size := range []int{64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKiB", c.of, size>>10), func(b *testing.B) {
				d := bytes.Repeat([]byte(c.of), size/len(c.of))
				b.SetBytes(int64(len(d)))
				for b.Loop() {
					c.read(d)
				}
			})
		}
	}
}

// TestFeedOfBothForms reads entries of RSS and Atom in one file, in any order, each with its own moment.
func TestFeedOfBothForms(t *testing.T) {
	const text = `<feed><link>http://a.test/top</link><entry><link href="http://a.test/1"/><updated>2026-01-02T00:00:00Z</updated></entry>
<item><link>http://a.test/2</link></item><item><pubDate>Sat, 03 Jan 2026 00:00:00 GMT</pubDate><link> http://a.test/3 </link></item>
<entry><link rel=alternate href='http://a.test/4'></entry><link>http://a.test/5</link>`
	var got []string
	for _, e := range feedEntries("text/xml", []byte(text), "http://a.test/feed") {
		got = append(got, fmt.Sprint(e.url[len("http://a.test/"):], e.changed.from.Day()*min(e.changed.from.Year()/2000, 1)))
	}
	if want := []string{"top0", "12", "20", "33", "40", "50"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBombs are bodies of which little comes out, or nothing, however long they are worked on.
func TestBombs(t *testing.T) {
	gz := func(b []byte) []byte { return gzipped(string(b)) }
	br := func(b []byte) []byte { return brotlied(string(b)) }
	nothing := gz(nil)
	empty := bytes.Repeat(nothing, 16<<20/len(nothing)) // members that hold nothing
	for _, c := range []struct {
		coding string
		body   []byte
		err    error
	}{
		{"gzip", empty, errBomb},
		{"gzip, br", br(empty), errBomb},
		{"gzip, gzip, br", br(gz(empty)), errBomb},
		{"gzip", empty[:1000*len(nothing)], nil},
		{"gzip, br", br(gz([]byte("a page"))), nil},
		{"gzip", gz(make([]byte, 16<<20)), errBomb},
		{"gzip, gzip, gzip, gzip", gz(gz(gz(gz(nil)))), errEncoding},
	} {
		read := &counting{r: bytes.NewReader(c.body)}
		resp := &http.Response{Header: http.Header{"Content-Encoding": {c.coding}}, Body: io.NopCloser(read)}
		var d decoder
		out, _, err := d.body(resp, nil, DefaultPage)
		d.close()
		if !errors.Is(err, c.err) || read.n > DefaultPage+encodingSlack+64<<10 || len(out) > DefaultPage {
			t.Errorf("%s, %d bytes: %v after %d bytes, gives %d", c.coding, len(c.body), err, read.n, len(out))
		}
	}
}

func gzipped(s string) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	io.WriteString(w, s)
	w.Close()
	return out.Bytes()
}

func brotlied(s string) []byte {
	var out bytes.Buffer
	w := brotli.NewWriterLevel(&out, 5)
	io.WriteString(w, s)
	w.Close()
	return out.Bytes()
}

type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}

// TestRulesAndLinks has a page of many links on a host whose robots.txt is as long and as slow as can be: the links that robots.txt has no
// time for are left, and counted.
func TestRulesAndLinks(t *testing.T) {
	var rules, links strings.Builder
	rules.WriteString("User-agent: *\n")
	for i := 0; rules.Len() < 450<<10; i++ {
		fmt.Fprintf(&rules, "Disallow: *%d$\n", i+1_000_000)
	}
	for i := range 5000 {
		fmt.Fprintf(&links, "<a href=/p%d>x</a>", i)
	}
	cfg, _ := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			io.WriteString(w, rules.String())
			return
		}
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, links.String())
	}))
	cfg.Header.Budget = 3
	r := run(t, cfg)
	if r.Pages != 3 || r.Errors["skipped-rules"] == 0 || !r.Truncated || r.Left < 100 {
		t.Errorf("%d pages, %d left, %v", r.Pages, r.Left, r.Errors)
	}
}

// TestBrokenHost answers its first page, and then with errors only.
func TestBrokenHost(t *testing.T) {
	cfg, _ := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			tree(500, 499).ServeHTTP(w, r)
			return
		}
		if r.URL.Path != "/robots.txt" {
			http.Error(w, "broken", http.StatusInternalServerError)
		} else {
			http.NotFound(w, r)
		}
	}))
	r := run(t, cfg)
	if r.Outcome != channel.Failed || r.Errors["http-500"] != MaxBroken || !strings.Contains(r.Reason, "in a row") {
		t.Errorf("%d %s, %v", r.Outcome, r.Reason, r.Errors)
	}
}
