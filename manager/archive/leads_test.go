package archive

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"shoal/channel"
)

// TestLeadsOfAResumedCrawl has a crawl done in three parts, by two peers of which the second is started again, and over a restart of the archive. The report that the last
// part sends names only what that found; the manager is told of every link to another site, once each. What one crawl told the next one does not tell again.
func TestLeadsOfAResumedCrawl(t *testing.T) {
	cfg := testConfig(t.TempDir())
	a := open(t, cfg)
	page := func(r *runner, path string, links ...string) channel.Page {
		p := r.page(path, long+path, channel.New)
		p.Links = links
		return p
	}
	chunk := func(pages ...channel.Page) channel.ChunkBody { return channel.ChunkBody{Pages: pages} }
	end := func(r *runner, o channel.Outcome, inter ...string) {
		t.Helper()
		rep := r.report(o)
		rep.Inter = inter
		r.put(channel.ChunkBody{Pages: []channel.Page{page(r, "/end"+fmt.Sprint(r.gen))}, Report: rep})
	}
	told := func(want ...string) {
		t.Helper()
		entries, _, err := a.Feed(t.Context(), "", MaxFeed)
		if err != nil {
			t.Fatal(err)
		}
		last := entries[len(entries)-1].Report
		if last == nil {
			t.Fatal("the feed does not end with a report")
		}
		if !slices.Equal(last.Inter, want) {
			t.Errorf("told of %v, want %v", last.Inter, want)
		}
	}

	r, _ := start(t, a, "alice", 1, 1)
	r.put(chunk(page(r, "/", r.url("/a"), "http://one.example/", "http://two.example/"), page(r, "/a", "http://one.example/", "http://three.example/")))
	if _, err := a.Release(t.Context(), "alice", 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, cfg)
	r, claimed := start(t, a, "bob", 1, 2)
	if len(claimed.Resume.Leads) > 0 {
		t.Errorf("a peer is told of links to other sites: %v", claimed.Resume.Leads)
	}
	r.put(chunk(page(r, "/b", "http://four.example/", "http://two.example/")))
	end(r, channel.Updated, "http://five.example/", "http://three.example/")
	told("http://five.example/", "http://three.example/", "http://one.example/", "http://two.example/", "http://four.example/")

	r, _ = start(t, a, "bob", 1, 3)
	r.put(chunk(page(r, "/c", "http://four.example/", "http://six.example/")))
	end(r, channel.Updated)
	told("http://six.example/")

	// A peer that stops tells what it has found; the rest is told when the crawl ends.
	r, _ = start(t, a, "alice", 1, 4)
	r.put(chunk(page(r, "/d", "http://seven.example/", "http://eight.example/")))
	end(r, channel.Stopped, "http://seven.example/")
	told("http://seven.example/")
	r, _ = start(t, a, "bob", 1, 5)
	end(r, channel.Updated, "http://nine.example/")
	told("http://nine.example/", "http://eight.example/")

	r, _ = start(t, a, "bob", 1, 6)
	end(r, channel.Updated)
	told()
}

// TestLeadsAreBounded has a peer bring more links to other sites than a report may have, and another one end the crawl: the manager gets a report that it can read.
func TestLeadsAreBounded(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "alice", 1, 1)
	pad := strings.Repeat("x", 200)
	for n := range 120 {
		p := r.page(fmt.Sprint("/", n), fmt.Sprint(long, n), channel.New)
		p.Links = nil
		for i := range 100 {
			p.Links = append(p.Links, fmt.Sprintf("http://other.example/%s/%d/%d", pad, n, i))
		}
		r.put(channel.ChunkBody{Pages: []channel.Page{p}})
	}
	rep := r.report(channel.Updated)
	rep.Inter = []string{"http://own.example/"}
	r.put(channel.ChunkBody{Report: rep})
	entries, _, err := a.Feed(t.Context(), "", MaxFeed)
	if err != nil {
		t.Fatal(err)
	}
	got, bytes := entries[len(entries)-1].Report.Inter, 0
	for _, u := range got {
		bytes += len(u)
	}
	if got[0] != rep.Inter[0] || len(got) < 1000 || bytes > channel.MaxReportURLs || bytes < channel.MaxReportURLs*9/10 {
		t.Errorf("%d links of %d bytes, the first %s; want nearly %d bytes, those of the report first", len(got), bytes, got[0], channel.MaxReportURLs)
	}
}
