package archive

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/pages"
)

// TestPathsOfOlderPeersAreFound: what peers of 0.1.0 stored under a path with "^" is found by either spelling, and what others store later goes before it.
func TestPathsOfOlderPeersAreFound(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "p", 1, 1)
	const former, today = "/a^b/c^d?e^", "/a%5Eb/c%5Ed?e^"
	put := func(path, body string) {
		r.put(channel.ChunkBody{Pages: []channel.Page{r.page(path, body, channel.New)}})
	}
	look := func(body, url string, n int) {
		t.Helper()
		for _, path := range []string{former, today, "/a%5eb/c^d?e^"} {
			c, err := a.Get(t.Context(), r.url(path), time.Time{})
			if err != nil || string(c.Body) != body || c.URL != r.url(url) {
				t.Errorf("%s: %q of %s, %v", path, c.Body, c.URL, err)
			}
			if p, err := a.Page(t.Context(), r.url(path)); err != nil || p.URL != r.url(url) {
				t.Errorf("%s: the state of %s, %v", path, p.URL, err)
			}
			for _, x := range []pages.Index{{URL: r.url(path)}, {URL: r.url(path[:8]), Prefix: true}, {URL: r.url("/"), Prefix: true}} {
				var out bytes.Buffer
				if err := a.CDXJ(t.Context(), &out, x); err != nil || bytes.Count(out.Bytes(), []byte("\n")) != n {
					t.Errorf("%+v: the index has\n%s(%v)", x, out.String(), err)
				}
			}
			urls := 0
			if err := a.EachURL(t.Context(), r.url(path[:8]), 0, func(string) { urls++ }); err != nil || urls != n {
				t.Errorf("%s: %d URLs, %v", path, urls, err)
			}
		}
	}
	put(former, "before "+long)
	look("before "+long, former, 1)
	put(today, "now "+long)
	look("now "+long, today, 2)
	if _, err := a.Get(t.Context(), r.url("/a^b/c"), time.Time{}); err == nil {
		t.Error("a page that never was")
	}
}

// TestPathsOfOlderPeersAreKnownOnce: once a page is stored in the spelling of today, the one that a peer of 0.1.0 stored is not counted beside it, and no peer is sent to
// look at what none would fetch. Till then it is as all others.
func TestPathsOfOlderPeersAreKnownOnce(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "p", 1, 1)
	look := func(when string, urls ...string) {
		t.Helper()
		k, err := a.Known(t.Context(), 1, time.Now().Add(time.Hour))
		if err != nil || k.Pages != len(urls) || len(k.Digests) != len(urls) || !slices.Equal(slices.Sorted(slices.Values(k.Missed)), urls) {
			t.Errorf("%s: %d pages, %d digests, to be looked at %q (%v); want %q", when, k.Pages, len(k.Digests), k.Missed, err, urls)
		}
	}
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/a^b", "of old "+long, channel.New), r.page("/c^d", "another "+long, channel.New), r.page("/x", "plain "+long, channel.New)}})
	look("as a peer of 0.1.0 stored it", r.url("/a^b"), r.url("/c^d"), r.url("/x"))
	p := r.page("/a%5Eb", "of old "+long, channel.New)
	p.Fetched = p.Fetched.Add(time.Second)
	r.put(channel.ChunkBody{Pages: []channel.Page{p}})
	look("as it is stored today", r.url("/a%5Eb"), r.url("/c^d"), r.url("/x"))
	p = r.page("/a^b", "changed "+long, channel.New)
	p.Fetched = p.Fetched.Add(time.Minute)
	r.next()
	r.put(channel.ChunkBody{Pages: []channel.Page{p}})
	look("looked at by a peer of 0.1.0 again", r.url("/a%5Eb"), r.url("/a^b"), r.url("/c^d"), r.url("/x"))
}
