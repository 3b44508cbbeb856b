package archive

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/conduct"
)

// watched is an archive of strangers, with what it tells of their deeds: peer, deed and how often.
func watched(t *testing.T) (*Archive, *clock, func() string) {
	told := map[string]int{}
	cfg := testConfig(t.TempDir())
	cfg.AccountOf = func(peer string) string { return "of " + peer }
	cfg.OnDeed = func(peer, account string, d conduct.Deed, n int) {
		if account != "of "+peer {
			t.Errorf("%s has account %s", peer, account)
		}
		told[fmt.Sprint(peer, " ", d)] += n
	}
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.Clock = cl.Now
	return open(t, cfg), cl, func() string {
		var out []string
		for _, k := range slices.Sorted(maps.Keys(told)) {
			out = append(out, fmt.Sprint(k, " ", told[k]))
		}
		clear(told)
		return strings.Join(out, "; ")
	}
}

// A version that one account alone saw, between visits of two others that saw the same, counts against who delivered it. A page that changes does not.
func TestContradictionsAreTold(t *testing.T) {
	a, cl, told := watched(t)
	deliver := func(peer string, gen channel.Gen, body string) {
		cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page { return []channel.Page{r.page("/", body, channel.Changed)} })
	}
	deliver("alice", 1, home)
	deliver("bob", 2, news) // it changed
	deliver("carol", 3, news+"!")
	deliver("alice", 4, home+"!")
	if got := told(); got != "" {
		t.Errorf("a page that changes: %s", got)
	}
	deliver("mallory", 5, forge)
	deliver("alice", 6, home+"!") // one account's word against another's
	if got := told(); got != "" {
		t.Errorf("one against one: %s", got)
	}
	deliver("mallory", 7, forge)
	deliver("bob", 8, home+"!")
	if got := told(); got != "mallory contradicted 1" {
		t.Errorf("two against one: %s", got)
	}
	deliver("mallory", 9, forge)
	deliver("accomplice", 10, forge)
	deliver("alice", 11, home+"!")
	if got := told(); got != "" {
		t.Errorf("two against two: %s", got)
	}
}

// A 404 that two others contradict, by the page or by its not having changed, counts once.
func TestFalse404sAreTold(t *testing.T) {
	a, cl, told := watched(t)
	see := func(peer string, gen channel.Gen) {
		cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.Changed)} })
	}
	gone := func(peer string, gen channel.Gen) {
		cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page {
			return []channel.Page{{URL: r.url("/"), Status: 404, Change: channel.Gone, Fetched: cl.now}}
		})
	}
	see("alice", 1)
	gone("mallory", 2)
	see("alice", 3)
	if got := told(); got != "" {
		t.Errorf("one against one: %s", got)
	}
	gone("mallory", 4)
	see("bob", 5)
	if got := told(); got != "mallory contradicted_404 1" {
		t.Errorf("two against one: %s", got)
	}
	gone("mallory", 6)
	for gen := range channel.Gen(2) {
		cl.crawl(t, a, "carol", 7+gen, func(r *runner) []channel.Page {
			return []channel.Page{{URL: r.url("/"), Status: 304, Change: channel.Unchanged, Fetched: cl.now}}
		})
	}
	if got := told(); got != "mallory contradicted_404 1" {
		t.Errorf("unchanged, twice: %s", got)
	}
	cl.now = cl.now.Add(25 * time.Hour)
	gone("mallory", 9) // a day after it said so last, and was contradicted
	if got := shown(t, a, "http://site-1.example/"); got != home {
		t.Errorf("one said so again, a day later, and %q is shown", got)
	}
	gone("bob", 10) // and so it is gone
	if got := shown(t, a, "http://site-1.example/"); got != "" {
		t.Errorf("two that agree, and %q is shown", got)
	}
	if got := told(); got != "" {
		t.Errorf("two that agree: %s", got)
	}
}

// Who goes on with another's crawl reports the pages of both, which is nothing against it.
func TestGoingOnIsNoDeed(t *testing.T) {
	a, _, told := watched(t)
	several := func(r *runner, from, to int) (out []channel.Page) {
		for i := from; i < to; i++ {
			out = append(out, r.page(fmt.Sprint("/", i), fmt.Sprint(i, long), channel.New))
		}
		return out
	}
	r, _ := start(t, a, "alice", 1, 1)
	r.put(channel.ChunkBody{Pages: several(r, 0, 30)})
	if _, err := a.Release(t.Context(), "alice", 1, 1); err != nil {
		t.Fatal(err)
	}
	r, _ = start(t, a, "bob", 1, 2)
	report := r.report(channel.Updated)
	report.Pages, report.New = 35, 35
	r.put(channel.ChunkBody{Pages: several(r, 30, 35), Report: report})
	if got := told(); got != "" {
		t.Errorf("after a crawl in two parts: %s", got)
	}
	r, _ = start(t, a, "mallory", 1, 3)
	report = r.report(channel.Updated)
	report.Pages, report.New = 35, 35
	r.put(channel.ChunkBody{Pages: several(r, 0, 5), Report: report})
	if got := told(); got != "mallory false_counts 1" {
		t.Errorf("after a crawl that had only one part: %s", got)
	}
}

// What is refused or corrected is told by kind, of who sent it.
func TestRefusalsAreToldByKind(t *testing.T) {
	a, cl, told := watched(t)
	pages := func(r *runner, n int) (out []channel.Page) {
		for i := range n {
			out = append(out, r.page(fmt.Sprint("/", i), fmt.Sprint(i, long), channel.New))
		}
		return out
	}
	for i, c := range []struct {
		name string
		make func(r *runner) channel.Chunk
		want string
	}{
		{"honest", func(r *runner) channel.Chunk { return r.chunk(channel.ChunkBody{Pages: pages(r, 5)}) }, ""},
		{"garbage", func(r *runner) channel.Chunk {
			c := r.chunk(channel.ChunkBody{})
			c.Body = []byte("no chunk")
			return c
		}, "p unreadable 1"},
		{"others' pages", func(r *runner) channel.Chunk {
			p := pages(r, 3)
			p[0].URL, p[1].URL = "http://elsewhere.example/", "http://elsewhere.example/2"
			return r.chunk(channel.ChunkBody{Pages: p})
		}, "p foreign_pages 2"},
		{"odd spelling", func(r *runner) channel.Chunk {
			p := pages(r, 1)
			p[0].URL = r.url("/a/../b")
			return r.chunk(channel.ChunkBody{Pages: p})
		}, "p odd_urls 1"},
		{"false digests", func(r *runner) channel.Chunk {
			p := pages(r, 4)
			p[0].Digest++
			p[1].Digest++
			return r.chunk(channel.ChunkBody{Pages: p})
		}, "p false_digests 2"},
		{"false counts", func(r *runner) channel.Chunk {
			report := r.report(channel.Updated)
			report.Pages = 1 << 30
			return r.chunk(channel.ChunkBody{Report: report})
		}, "p false_counts 1"},
		{"false changes", func(r *runner) channel.Chunk {
			p := pages(r, 1)
			p[0].Status = 500
			return r.chunk(channel.ChunkBody{Pages: p})
		}, "p false_changes 1"},
	} {
		cl.now = cl.now.Add(time.Minute)
		r, _ := start(t, a, "p", channel.ID(i+1), 1)
		_, err := a.Put(t.Context(), "p", c.make(r))
		if got := told(); got != c.want {
			t.Errorf("%s: told %q, want %q (%v)", c.name, got, c.want, err)
		}
	}
	for kind, edit := range map[string]func(*channel.Header){
		"p over_budget 1": func(h *channel.Header) { h.Budget = 2 },
		"p too_fast 1":    func(h *channel.Header) { h.Budget, h.Gap = 1000, time.Hour },
	} {
		cl.now = cl.now.Add(time.Minute)
		id := channel.ID(len(kind))
		s, body := taskOf(id, 9, fmt.Sprintf("http://site-%d.example", id), cl.now.Add(time.Hour))
		h, err := channel.ParseHeader(s.Raw)
		if err != nil {
			t.Fatal(err)
		}
		edit(&h)
		s.Raw = h.Marshal()
		if err := a.Deposit(t.Context(), s, body); err != nil {
			t.Fatal(err)
		}
		c, err := a.Claim(t.Context(), "p", s)
		if err != nil {
			t.Fatal(err)
		}
		r := &runner{t, a, "p", id, 9, c.Resume.Seq, c.Resume.Head, nil}
		if _, err := a.Put(t.Context(), "p", r.chunk(channel.ChunkBody{Pages: pages(r, 70)})); err == nil {
			t.Errorf("%s: it was stored", kind)
		}
		if got := told(); got != kind {
			t.Errorf("told %q, want %q", got, kind)
		}
	}
}
