package archive

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"shoal/channel"
)

// importanceOf is what the next task of a channel would carry.
func importanceOf(t *testing.T, a *Archive, id channel.ID) map[uint64]float32 {
	t.Helper()
	k, err := a.Known(context.Background(), id, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[uint64]float32{}
	for _, i := range k.Importance {
		out[i.URL] = i.Rank
	}
	return out
}

// Ranks are those of the stored graph over all channels, follow changed links, forget pages that are gone, survive a restart, and go
// with tasks.
func TestRank(t *testing.T) {
	ctx := context.Background()
	cfg := testConfig(t.TempDir())
	a := open(t, cfg)
	now := time.Now()
	put := func(id channel.ID, gen channel.Gen, pages ...channel.Page) {
		t.Helper()
		r, _ := start(t, a, "peer", id, gen)
		for i := range pages {
			pages[i].Fetched = now
			pages[i].Header = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
			if pages[i].Status == 0 {
				pages[i].Status = 200
			}
		}
		r.put(channel.ChunkBody{Pages: pages, Report: r.report(channel.Updated)})
	}
	page := func(url, body string, links ...string) channel.Page {
		return channel.Page{URL: url, Change: channel.New, Body: []byte(body), Links: links}
	}
	const home1, deep1, home2 = "http://site-1.example/", "http://site-1.example/deep", "http://site-2.example/"
	put(1, 1, page(home1, "one", deep1), page(deep1, "deep", home1, home2, "http://elsewhere.example/"))
	put(2, 1, page(home2, "two", home1))

	if n := len(importanceOf(t, a, 1)); n != 0 {
		t.Fatalf("%d ranks before any was computed", n)
	}
	r, err := a.Rank(ctx)
	if err != nil || r.Pages != 3 || r.Links != 5 || r.Written != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	one, two := importanceOf(t, a, 1), importanceOf(t, a, 2)
	h1, d1, h2 := one[channel.URLHash(home1)], one[channel.URLHash(deep1)], two[channel.URLHash(home2)]
	// x = .05 + .85 A x, solved by hand: h1 = .05+.85(d1/2+h2), d1 = .05+.85 h1, h2 = .05+.85 d1/2.
	want := func(h1, d1, h2 float64) bool {
		return math.Abs(h1-(.05+.85*(d1/2+h2)))+math.Abs(d1-(.05+.85*h1))+math.Abs(h2-(.05+.85*d1/2)) < 1e-5
	}
	if !want(float64(h1), float64(d1), float64(h2)) || math.Abs(float64(h1+d1+h2)-1) > 1e-5 {
		t.Fatalf("ranks %v %v %v", h1, d1, h2)
	}
	if r, err = a.Rank(ctx); err != nil || r.Written != 0 {
		t.Errorf("nothing changed, yet %+v, %v", r, err)
	}
	// The deep page goes, and nothing links to the second host any more.
	gone := page(deep1, "", "http://nowhere.example/")
	gone.Status, gone.Change = 404, channel.Gone
	put(1, 2, gone)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, cfg)
	if got := importanceOf(t, a, 2); got[channel.URLHash(home2)] != h2 {
		t.Errorf("after a restart %v, want %v", got, h2)
	}
	if r, err = a.Rank(ctx); err != nil || r.Pages != 2 || r.Written != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	if one, two = importanceOf(t, a, 1), importanceOf(t, a, 2); len(one) != 1 || !(one[channel.URLHash(home1)] > two[channel.URLHash(home2)]) {
		t.Errorf("ranks %v %v", one, two)
	}
}

// Run computes ranks by itself, and ends at once when told.
func TestRunRanks(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.RankEvery = time.Millisecond
	a := open(t, cfg)
	r, _ := start(t, a, "peer", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", "home", channel.New)}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	for end := time.Now().Add(time.Minute); len(importanceOf(t, a, 1)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no rank within a minute")
		}
	}
}

// A chunk of pages with very many links is stored all the same; PageRank goes without some of them.
func TestManyLinks(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "peer", 1, 1)
	links := make([]string, 5000)
	for i := range links {
		links[i] = r.url("/" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)))
	}
	var pages []channel.Page
	for i := range 90 {
		p := r.page("/", links[i], channel.New)
		p.URL, p.Links = links[i], links
		pages = append(pages, p)
	}
	r.put(channel.ChunkBody{Pages: pages, Report: r.report(channel.Updated)})
	got, err := a.Rank(context.Background())
	if err != nil || got.Pages != 90 || got.Links < 80*900 {
		t.Errorf("%+v, %v", got, err)
	}
}
