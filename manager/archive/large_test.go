package archive

import (
	"context"
	"fmt"
	"testing"
	"time"

	"shoal/channel"
)

// TestLargestChunk stores a chunk of as many pages as are taken at once, new and then unchanged and then changed, with long URLs and
// validators: more than one transaction holds. One page more is refused.
func TestLargestChunk(t *testing.T) {
	ctx := context.Background()
	a := open(t, testConfig(t.TempDir()))
	pages := func(r *runner, n int, change channel.Change, version string) (out []channel.Page) {
		for i := range n {
			path := fmt.Sprintf("/%0120d", i)
			p := r.page(path, fmt.Sprintf("%s %d %s", version, i, long[:80]), change)
			p.Header = []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"%0100d\"\r\nLast-Modified: Sat, 21 Nov 2026 08:00:00 GMT\r\n\r\n", i))
			if change == channel.Unchanged {
				p.Body = nil
			}
			out = append(out, p)
		}
		return out
	}
	r, _ := start(t, a, "p", 1, 1)
	r.put(channel.ChunkBody{Pages: pages(r, MaxPages, channel.New, "a")})
	r.put(channel.ChunkBody{Pages: pages(r, MaxPages, channel.Unchanged, "a")})
	r.put(channel.ChunkBody{Pages: pages(r, MaxPages, channel.Changed, "b")})
	if got, err := a.Put(ctx, "p", r.chunk(channel.ChunkBody{Pages: pages(r, MaxPages+1, channel.New, "c")})); err == nil {
		t.Errorf("a chunk of more pages: %v", got.Status)
	}
	r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
	if s := a.Stats(); s.Pages != 2*MaxPages || s.Unchanged != MaxPages || s.Events != 2*MaxPages {
		t.Errorf("stats %+v", s)
	}
	if got, err := a.Get(ctx, r.url(fmt.Sprintf("/%0120d", MaxPages-1)), time.Time{}); err != nil || got.Body[0] != 'b' {
		t.Errorf("last page: %.10q, %v", got.Body, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, a.cfg)
	if k, err := a.Known(ctx, 1, time.Time{}); err != nil || k.Pages != MaxPages || len(k.Digests) != MaxPages {
		t.Errorf("known: %d pages, %d digests, %v", k.Pages, len(k.Digests), err)
	}
	if n := a.Stats().Leases; n != 0 {
		t.Errorf("%d leases run after the report", n)
	}
}

// TestLargeResumeGoesOn stops a crawl of a host with very many long URLs. Another peer gets all of them, more than 32 MiB
// of resume state, can read it, and ends the crawl.
func TestLargeResumeGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("stores 40 MB of URLs")
	}
	const chunks, urls, long = 10, 4000, 1000
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "first", 1, 1)
	want := 0
	for c := range chunks {
		b := channel.ChunkBody{Pages: []channel.Page{r.page(fmt.Sprint("/", c), fmt.Sprint("page ", c), channel.New)}}
		for i := range urls {
			b.Frontier = append(b.Frontier, channel.Frontier{URL: r.url(fmt.Sprintf("/%d/%0*d", c, long, i)), Depth: 1})
		}
		if c == chunks-1 {
			b.Report = r.report(channel.Stopped)
		}
		want += urls
		r.put(b)
	}
	next, claimed := start(t, a, "second", 1, 2)
	raw := claimed.Resume.Marshal()
	if len(raw) <= 32<<20 || len(raw) > channel.MaxResume {
		t.Errorf("the resume state has %d bytes, want more than 32 MiB and at most %d", len(raw), channel.MaxResume)
	}
	got, err := channel.ParseResume(raw)
	if err != nil || len(got.Frontier) < want || len(got.Done) != chunks {
		t.Fatalf("%d URLs to do and %d done, want %d and %d; %v", len(got.Frontier), len(got.Done), want, chunks, err)
	}
	next.put(channel.ChunkBody{Pages: []channel.Page{next.page("/more", "more", channel.New)}, Report: next.report(channel.Updated)})
	if _, third := start(t, a, "third", 1, 3); len(third.Resume.Frontier) > urls {
		t.Errorf("the next crawl begins with %d URLs of the one that ended", len(third.Resume.Frontier))
	}
}

// TestResumeStopsGrowing has one peer after the other claim a channel, bring a page and as many invented URLs as are taken, and give back. What the next one is
// told to fetch stays within the bound of one claim. After a report it begins anew.
func TestResumeStopsGrowing(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	const claims, budget, bound = 5, 20, 10_000 + 8*20
	gen := channel.Gen(0)
	claim := func() (*runner, int) {
		t.Helper()
		gen++
		signed, body := task(1, gen, time.Now().Add(time.Hour))
		h, err := channel.ParseHeader(signed.Raw)
		if err != nil {
			t.Fatal(err)
		}
		h.Budget = budget
		signed.Raw = h.Marshal()
		if err := a.Deposit(t.Context(), signed, body); err != nil {
			t.Fatal(err)
		}
		c, err := a.Claim(t.Context(), fmt.Sprint("peer", gen), signed)
		if err != nil {
			t.Fatal(err)
		}
		return &runner{t, a, fmt.Sprint("peer", gen), 1, gen, c.Resume.Seq, c.Resume.Head, nil}, len(c.Resume.Frontier)
	}
	page := func(r *runner) []channel.Page {
		return []channel.Page{r.page(fmt.Sprint("/", r.gen), fmt.Sprint("page ", r.gen), channel.New)}
	}
	for range claims {
		r, told := claim()
		if told > bound {
			t.Fatalf("claim %d is told %d URLs, want %d at most", gen, told, bound)
		}
		b := channel.ChunkBody{Pages: page(r)}
		for i := range channel.MaxFrontierPart {
			b.Frontier = append(b.Frontier, channel.Frontier{URL: r.url(fmt.Sprintf("/%d/%d", gen, i))})
		}
		r.put(b)
		if _, err := a.Release(t.Context(), r.peer, 1, gen); err != nil {
			t.Fatal(err)
		}
	}
	r, _ := claim()
	r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
	r, told := claim()
	if told > claims {
		t.Errorf("the next crawl is told %d URLs of the last one", told)
	}
	r.put(channel.ChunkBody{Pages: page(r), Frontier: []channel.Frontier{{URL: r.url("/more")}}, Report: r.report(channel.Stopped)})
	if _, told = claim(); told == 0 {
		t.Error("a new crawl keeps no URLs")
	}
}
