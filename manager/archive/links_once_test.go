package archive

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
)

// TestLinksAreStoredOnce has three accounts send the same page whole: what the second saw has the links of the first, which are stored once. The third saw others, or its peer
// says so, and has its own.
func TestLinksAreStoredOnce(t *testing.T) {
	a, cl, _ := strangers(t)
	body := bytes.Repeat([]byte("<p>A page of some length with links.</p>"), 100)
	first, other := []string{"http://site-1.example/a", "http://elsewhere.example/"}, []string{"http://site-1.example/b"}
	var seen [3]time.Time
	for i, links := range [][]string{first, first, other} {
		cl.crawl(t, a, []string{"alice", "bob", "carol"}[i], channel.Gen(i+1), func(r *runner) []channel.Page {
			p := r.page("/", string(body), channel.New)
			p.Links, seen[i] = links, p.Fetched
			return []channel.Page{p}
		})
	}
	for i, want := range [][]string{first, first, other} {
		c, err := a.Get(t.Context(), "http://site-1.example/", seen[i])
		if err != nil || !slices.Equal(c.Links, want) || !bytes.Equal(c.Body, body) {
			t.Errorf("visit %d: links %v, %v; want %v", i, c.Links, err, want)
		}
	}
	stored := strings.Count(unpacked(t, a), "WARC-Type: metadata")
	if stored != 2 {
		t.Errorf("links are stored %d times, want 2", stored)
	}
}
