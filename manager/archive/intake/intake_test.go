package intake

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"shoal/channel"
)

const host = "https://a.example"

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func task() *Task {
	s := channel.Scope{Kind: channel.WholeHost, Host: host}
	m, err := s.Compile()
	if err != nil {
		panic(err)
	}
	return &Task{Host: host, Scope: m, Budget: 64, Gap: time.Second, Claimed: noon.Add(-10 * time.Minute)}
}

func page(path, body string) channel.Page {
	return channel.Page{URL: host + path, Status: 200, Change: channel.New, Body: []byte(body), Digest: channel.ContentDigest([]byte(body)), Fetched: noon.Add(-time.Minute)}
}

func screen(t *testing.T, task *Task, b *channel.ChunkBody) (Sum, int, Findings) {
	t.Helper()
	var sum Sum
	useful, found, err := Screen(noon, task, &sum, b)
	if err != nil {
		t.Fatal(err)
	}
	return sum, useful, found
}

// An honest chunk is left as it is, and nothing is found.
func TestHonestChunk(t *testing.T) {
	b := &channel.ChunkBody{
		Pages: []channel.Page{page("/", "home"), page("/a", "a"), {URL: host + "/gone", Status: 404, Change: channel.Gone, Fetched: noon.Add(-time.Minute)},
			{URL: host + "/same", Status: 304, Change: channel.Unchanged, Digest: 7, Fetched: noon.Add(-time.Minute)},
			{URL: host + "/down", Change: channel.Errored, Error: "timeout: no answer", Fetched: noon.Add(-time.Minute)}},
		Frontier: []channel.Frontier{{URL: host + "/b", Depth: 1}},
		Report: &channel.Report{Channel: 1, Gen: 2, Outcome: channel.Updated, Started: noon.Add(-9 * time.Minute), Ended: noon.Add(-time.Second), Pages: 4, New: 2, Gone: 1, Unchanged: 1,
			BytesDown: 4000, Gap: 2 * time.Second, RTT: 20 * time.Millisecond, Errors: map[string]int{"timeout": 1, "http-404": 1, "robots-503": 2}, Robots: "allowed"},
	}
	want := fmt.Sprintf("%+v %+v %+v", b.Pages, b.Frontier, *b.Report)
	sum, useful, found := screen(t, task(), b)
	if got := fmt.Sprintf("%+v %+v %+v", b.Pages, b.Frontier, *b.Report); got != want {
		t.Errorf("changed to\n%s\nfrom\n%s", got, want)
	}
	if found != (Findings{}) {
		t.Errorf("found %+v in an honest chunk", found)
	}
	if useful != 5 || sum.New != 2 || sum.Gone != 1 || sum.Unchanged != 1 || sum.Pages != 5 || sum.Frontier != 1 {
		t.Errorf("useful %d, sum %+v", useful, sum)
	}
}

// A body under another page's digest gets its own: honest peers then find it changed, and the forgery is never confirmed by a digest.
func TestForgedDigest(t *testing.T) {
	p := page("/", "forged")
	p.Digest = channel.ContentDigest([]byte("the true page"))
	b := &channel.ChunkBody{Pages: []channel.Page{p}}
	_, _, found := screen(t, task(), b)
	if found.Digests != 1 || found.Wrong() != 1 || b.Pages[0].Digest != channel.ContentDigest([]byte("forged")) {
		t.Errorf("found %+v, digest %x", found, b.Pages[0].Digest)
	}
	text := task()
	text.TextOnly = true
	b = &channel.ChunkBody{Pages: []channel.Page{p}}
	if _, _, found := screen(t, text, b); found.Digests != 0 {
		t.Errorf("a digest of what a text was made from is not the text's: %+v", found)
	}
}

// Pages that the task does not name, and spellings that are not canonical, are left out.
func TestForeignPages(t *testing.T) {
	for _, u := range []string{"https://b.example/", "http://a.example/", "HTTPS://a.example/", host + "/./x", host + "/a/../b", host + "/%7Euser", host + ":443/", host + "/#top", "nonsense", ""} {
		b := &channel.ChunkBody{Pages: []channel.Page{{URL: u, Status: 200, Change: channel.New, Body: []byte("x"), Fetched: noon}}}
		sum, useful, found := screen(t, task(), b)
		if len(b.Pages) != 0 || useful != 0 || sum.Pages != 0 || found.Wrong() != 1 {
			t.Errorf("%q: kept %d, useful %d, found %+v", u, len(b.Pages), useful, found)
		}
	}
}

func TestTimesAreTheArchives(t *testing.T) {
	never := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	tk := task()
	for _, at := range []time.Time{never, {}, noon.Add(time.Second), noon.Add(-365 * 24 * time.Hour), tk.Claimed.Add(-time.Hour), tk.Claimed.Add(-time.Minute)} {
		p := page("/", "x")
		p.Fetched = at
		b := &channel.ChunkBody{Pages: []channel.Page{p}, Report: &channel.Report{Outcome: channel.Updated, Started: at, Ended: at, Gap: 9 * 365 * 24 * time.Hour, Rest: time.Hour, RTT: time.Hour}}
		screen(t, tk, b)
		r := b.Report
		if got := b.Pages[0].Fetched; got.After(noon) || got.Before(tk.Claimed) {
			t.Errorf("fetched %v becomes %v", at, got)
		}
		if r.Started.Before(tk.Claimed) || r.Ended.After(noon) || r.Ended.Before(r.Started) || r.Gap > maxGap || r.Rest > channel.UsualRest || r.RTT != 0 {
			t.Errorf("report of %v: %v to %v, gap %v, RTT %v", at, r.Started, r.Ended, r.Gap, r.RTT)
		}
	}
}

func TestCountsAreTheArchives(t *testing.T) {
	kinds := map[string]int{"timeout": 3, "\x1b[31mred": 1 << 30}
	for i := range 60 {
		kinds[fmt.Sprint("kind-", i)] = 1 << 30
	}
	b := &channel.ChunkBody{Pages: []channel.Page{page("/", "x")},
		Report: &channel.Report{Outcome: channel.Updated, Pages: 1<<31 - 1, New: 1<<31 - 1, BytesDown: 1 << 50, BytesUp: 1 << 50, Left: 1 << 40, Errors: kinds, Reason: "\x1b[2Jgo\u202e away\r\n"}}
	_, _, found := screen(t, task(), b)
	r := b.Report
	if r.Pages != 1 || r.New != 1 || r.BytesDown != 1 || r.BytesUp > 1<<21 || r.Left > 100_000 || found.Numbers == 0 {
		t.Errorf("%+v, found %+v", r, found)
	}
	if len(r.Errors) != 2 || r.Errors["timeout"] != 3 || r.Errors["other"] > 100_000 {
		t.Errorf("errors %v", r.Errors)
	}
	if r.Reason != "[2Jgo away" {
		t.Errorf("reason %q", r.Reason)
	}
}

// Links to other sites are told as many as a thousand and a hundred for each page of the crawl.
func TestLinksForEachPage(t *testing.T) {
	for _, c := range []struct{ before, pages, said, kept int }{{0, 0, 5000, 1000}, {0, 1, 1100, 1100}, {0, 2, 5000, 1200}, {20, 2, 5000, 3200}} {
		b := &channel.ChunkBody{Report: &channel.Report{Outcome: channel.Updated}}
		for n := range c.pages {
			b.Pages = append(b.Pages, page(fmt.Sprint("/", n), "text"))
		}
		for n := range c.said {
			b.Report.Inter = append(b.Report.Inter, fmt.Sprint("http://other.example/", n))
		}
		tk := task()
		tk.Before = c.before
		screen(t, tk, b)
		if got := len(b.Report.Inter); got != c.kept {
			t.Errorf("%+v: %d links are kept", c, got)
		}
	}
}

// TestPathsOfOlderPeers: peers of 0.1.0 leave "^" in paths as it is. Nobody is blamed, and their pages are kept under the URLs by which they know them.
func TestPathsOfOlderPeers(t *testing.T) {
	tk := task()
	s := channel.Scope{Kind: channel.Directory, Host: host, Dirs: []string{"/a^b/"}}
	m, err := s.Compile()
	if err != nil {
		t.Fatal(err)
	}
	tk.Scope = m
	b := &channel.ChunkBody{Pages: []channel.Page{page("/a^b/c^d?e^f", "text"), page("/a%5Eb/c", "text")}, Frontier: []channel.Frontier{{URL: host + "/a^b/g"}},
		Report: &channel.Report{Outcome: channel.Updated, Inter: []string{"http://other.example/x^y?z^"}}}
	_, useful, found := screen(t, tk, b)
	if useful != 3 || len(b.Pages) != 2 || b.Pages[0].URL != host+"/a^b/c^d?e^f" || len(b.Frontier) != 1 || found != (Findings{}) {
		t.Errorf("useful %d, %+v, found %+v", useful, b, found)
	}
	if got := b.Report.Inter; len(got) != 1 || got[0] != "http://other.example/x%5Ey?z^" {
		t.Errorf("links: %q", got)
	}
}

// TestLinksThatAreNoURLs: links that are not canonical URLs are left out, since databases refuse them. Nobody is blamed.
func TestLinksThatAreNoURLs(t *testing.T) {
	const good = "http://other.example/a?b"
	b := &channel.ChunkBody{Pages: []channel.Page{page("/", "text")}, Report: &channel.Report{Outcome: channel.Updated,
		Inter: []string{"http://other.example", "http:///x", "http://UPPER.example/", good, "http://xn--a-0hc.example/", "http://other.example/%zz", "http://other.example:99999/"}}}
	_, _, found := screen(t, task(), b)
	if got := b.Report.Inter; len(got) != 1 || got[0] != good || found.Wrong() != 0 {
		t.Errorf("%q, %+v", got, found)
	}
}

// Who goes on with a crawl reports the pages of its earlier claims too, and is no liar.
func TestCountsOfACrawlThatGoesOn(t *testing.T) {
	for _, c := range []struct{ before, said, wrong int }{{0, 1, 0}, {0, 100, 1}, {99, 100, 0}, {99, 200, 1}} {
		tk := task()
		tk.Before = c.before
		var sum Sum
		b := &channel.ChunkBody{Pages: []channel.Page{page("/", "text")}, Report: &channel.Report{Outcome: channel.Updated, Pages: c.said}}
		if _, found, err := Screen(noon, tk, &sum, b); err != nil || found.Numbers != c.wrong || b.Report.Pages != 1 {
			t.Errorf("%d pages before, %d reported: %d wrong, %d counted, %v", c.before, c.said, found.Numbers, b.Report.Pages, err)
		}
	}
}

func TestBudget(t *testing.T) {
	tk := task()
	var sum Sum
	stored := 0
	for i := range 400 {
		b := &channel.ChunkBody{}
		for j := range 10 {
			b.Pages = append(b.Pages, page(fmt.Sprintf("/%d-%d", i, j), "x"))
		}
		before := sum
		_, _, err := Screen(noon, tk, &sum, b)
		if err != nil {
			if !errors.Is(err, ErrBeyond) || sum != before {
				t.Errorf("%v, sum %+v, before %+v", err, sum, before)
			}
			break
		}
		stored += 10
	}
	if stored < tk.Budget || stored > tk.Budget*3/2 {
		t.Errorf("%d pages stored for a budget of %d", stored, tk.Budget)
	}
}

// Pages may come as fast as the gap allows, and what could not be sent for a while at once; no faster.
func TestPace(t *testing.T) {
	tk := task()
	tk.Budget, tk.Claimed = 100_000, noon.Add(-5*time.Minute)
	many := func(n int) *channel.ChunkBody {
		b := &channel.ChunkBody{}
		for i := range n {
			b.Pages = append(b.Pages, page(fmt.Sprint("/", i), "x"))
		}
		return b
	}
	var sum Sum
	if _, _, err := Screen(noon, tk, &sum, many(300)); err != nil {
		t.Errorf("a page a second for five minutes: %v", err)
	}
	sum = Sum{}
	if _, _, err := Screen(noon, tk, &sum, many(3000)); !errors.Is(err, ErrBeyond) {
		t.Errorf("ten a second: %v", err)
	}
	tk.Unpaced, sum = true, Sum{}
	if _, _, err := Screen(noon, tk, &sum, many(3000)); err != nil {
		t.Errorf("unpaced: %v", err)
	}
}

func TestFrontierHasAnEnd(t *testing.T) {
	tk := task()
	var sum Sum
	left := 0
	for i := range 50 {
		b := &channel.ChunkBody{}
		if i == 0 {
			b.Pages = append(b.Pages, page("/", "links"))
		}
		for j := range 20_000 {
			b.Frontier = append(b.Frontier, channel.Frontier{URL: fmt.Sprintf("%s/%d/%d", host, i, j), Depth: 1})
		}
		_, found, err := Screen(noon, tk, &sum, b)
		if err != nil {
			t.Fatal(err)
		}
		left += found.Frontier
	}
	if sum.Frontier != tk.frontierMost() || sum.Frontier+left != 1_000_000 {
		t.Errorf("%d kept, %d left out, at most %d", sum.Frontier, left, tk.frontierMost())
	}
	long := &channel.ChunkBody{}
	for j := range 20_000 {
		long.Frontier = append(long.Frontier, channel.Frontier{URL: fmt.Sprintf("%s/%s%d", host, strings.Repeat("x", 1900), j)})
	}
	for budget, most := range map[int]int64{0: channel.MaxResume, 20: (frontierLeast + 20*frontierTimes) * frontierBytes} {
		tk.Budget, sum = budget, Sum{Pages: 1, Answered: 1}
		for range 5 {
			if _, _, err := Screen(noon, tk, &sum, &channel.ChunkBody{Frontier: append([]channel.Frontier(nil), long.Frontier...)}); err != nil {
				t.Fatal(err)
			}
		}
		if sum.FrontierBytes > most || sum.FrontierBytes < most-channel.MaxURL {
			t.Errorf("with a budget of %d %d bytes of URLs are kept, at most %d", budget, sum.FrontierBytes, most)
		}
	}
}

// Who has brought no page has found no links.
func TestNoFrontierWithoutPages(t *testing.T) {
	tk := task()
	var sum Sum
	invented := &channel.ChunkBody{Frontier: []channel.Frontier{{URL: host + "/a", Depth: 1}, {URL: host + "/b", Depth: 1}}}
	if _, found, err := Screen(noon, tk, &sum, invented); err != nil || len(invented.Frontier) != 0 || found.Frontier != 2 || sum.Frontier != 0 {
		t.Errorf("%d URLs kept, %d left out, %v", len(invented.Frontier), found.Frontier, err)
	}
	honest := &channel.ChunkBody{Pages: []channel.Page{page("/", "links")}, Frontier: []channel.Frontier{{URL: host + "/a", Depth: 1}}}
	if _, found, err := Screen(noon, tk, &sum, honest); err != nil || len(honest.Frontier) != 1 || found.Frontier != 0 {
		t.Errorf("with a page: %d URLs kept, %d left out, %v", len(honest.Frontier), found.Frontier, err)
	}
	later := &channel.ChunkBody{Frontier: []channel.Frontier{{URL: host + "/c", Depth: 1}}}
	if _, _, err := Screen(noon, tk, &sum, later); err != nil || len(later.Frontier) != 1 {
		t.Errorf("after a page: %d URLs kept, %v", len(later.Frontier), err)
	}
}

// An empty chunk, and one of pages that brought nothing, is no progress.
func TestNoProgress(t *testing.T) {
	for _, b := range []*channel.ChunkBody{{}, {Frontier: []channel.Frontier{{URL: host + "/x"}}}, {Pages: []channel.Page{{URL: host + "/x", Change: channel.Errored, Error: "timeout", Fetched: noon}}},
		{Pages: []channel.Page{{URL: "https://other.example/", Status: 200, Change: channel.New, Fetched: noon}}}} {
		if _, useful, _ := screen(t, task(), b); useful != 0 {
			t.Errorf("%+v is progress", b)
		}
	}
}

func TestChangesFitTheirStatus(t *testing.T) {
	for _, c := range []struct {
		status     int
		body       string
		said, want channel.Change
	}{
		{200, "x", channel.Gone, channel.Errored}, {404, "", channel.Gone, channel.Gone}, {410, "", channel.Gone, channel.Gone}, {500, "x", channel.New, channel.Errored},
		{304, "", channel.Changed, channel.Unchanged}, {0, "", channel.Changed, channel.Errored}, {200, "", channel.Unchanged, channel.Unchanged},
		{301, "", channel.Changed, channel.Changed}, {200, "x", channel.New, channel.New}, {403, "", channel.Errored, channel.Errored},
	} {
		p := page("/", c.body)
		p.Status, p.Change = c.status, c.said
		b := &channel.ChunkBody{Pages: []channel.Page{p}}
		screen(t, task(), b)
		if got := b.Pages[0].Change; got != c.want {
			t.Errorf("%d with %d bytes, said %d: %d, want %d", c.status, len(c.body), c.said, got, c.want)
		}
	}
}

// Whatever comes, what is kept is within the task, and screening it again changes nothing.
func TestScreenIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tk := task()
		b := &channel.ChunkBody{}
		for range rapid.IntRange(0, 20).Draw(t, "pages") {
			body := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "body")
			b.Pages = append(b.Pages, channel.Page{
				URL:     rapid.SampledFrom([]string{host, "https://b.example", "x"}).Draw(t, "host") + rapid.SampledFrom([]string{"/", "/a", "/./b", "/%7e"}).Draw(t, "path"),
				Fetched: noon.Add(time.Duration(rapid.Int64Range(-1<<55, 1<<55).Draw(t, "fetched"))), Status: rapid.SampledFrom([]int{0, 200, 301, 304, 404, 500}).Draw(t, "status"),
				Change: channel.Change(rapid.IntRange(0, 7).Draw(t, "change")), Digest: rapid.Uint64().Draw(t, "digest"), Body: body, Error: rapid.String().Draw(t, "error"),
				RTT: time.Duration(rapid.Int64().Draw(t, "rtt")),
			})
		}
		if rapid.Bool().Draw(t, "final") {
			b.Report = &channel.Report{Outcome: channel.Updated, Started: noon.Add(time.Duration(rapid.Int64Range(-1<<55, 1<<55).Draw(t, "started"))), Ended: noon.Add(time.Duration(rapid.Int64Range(-1<<55, 1<<55).Draw(t, "ended"))),
				Pages: rapid.Int().Draw(t, "n"), BytesDown: rapid.Int64().Draw(t, "down"), BytesUp: rapid.Int64().Draw(t, "up"), Gap: time.Duration(rapid.Int64().Draw(t, "gap")), Left: rapid.Int().Draw(t, "left"),
				Reason: rapid.String().Draw(t, "reason"), Errors: rapid.MapOf(rapid.String(), rapid.Int()).Draw(t, "errors")}
		}
		var sum Sum
		if _, _, err := Screen(noon, tk, &sum, b); err != nil {
			t.Fatalf("%v", err)
		}
		first := fmt.Sprintf("%+v", b.Pages)
		var report channel.Report
		if b.Report != nil {
			report = *b.Report
			report.Errors = maps.Clone(report.Errors)
		}
		var again Sum
		_, found, err := Screen(noon, tk, &again, b)
		again.Wrong = sum.Wrong
		if err != nil || again != sum {
			t.Fatalf("again: %v, %+v, then %+v", err, sum, again)
		}
		if found.Wrong() != 0 || found.Words != 0 {
			t.Fatalf("again: found %+v", found)
		}
		if second := fmt.Sprintf("%+v", b.Pages); second != first {
			t.Fatalf("pages\n%s\nthen\n%s", first, second)
		}
		if b.Report != nil && fmt.Sprint(report) != fmt.Sprint(*b.Report) {
			t.Fatalf("report %+v, then %+v", report, *b.Report)
		}
	})
}

// BenchmarkScreen screens chunks of fifty pages of 8 kB; the baseline is the digest that it must compute.
func BenchmarkScreen(b *testing.B) {
	body := strings.Repeat("a page of eight kilobytes ", 315)
	pages := make([]channel.Page, 50)
	for i := range pages {
		pages[i] = page(fmt.Sprintf("/articles/2026/06/%d", i), body)
	}
	tk := task()
	work := make([]channel.Page, len(pages))
	b.Run("screen", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			copy(work, pages)
			var sum Sum
			if _, _, err := Screen(noon, tk, &sum, &channel.ChunkBody{Pages: work}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("digests alone", func(b *testing.B) {
		for b.Loop() {
			for i := range pages {
				if channel.ContentDigest(pages[i].Body) != pages[i].Digest {
					b.Fatal("wrong")
				}
			}
		}
	})
}

// Links to other sites may be as long as URLs are, and as many as a report has. What they take together is bounded too: a report that no manager would read stopped all of them for good.
func TestLinksAreBoundedByTheirBytes(t *testing.T) {
	b := &channel.ChunkBody{Report: &channel.Report{Outcome: channel.Updated}}
	for n := range 1000 {
		b.Report.Inter = append(b.Report.Inter, fmt.Sprintf("http://other.example/%s%d", strings.Repeat("x", 1500), n))
	}
	screen(t, task(), b)
	size := 0
	for _, u := range b.Report.Inter {
		size += len(u)
	}
	if n := len(b.Report.Marshal()); size > channel.MaxReportURLs || size < channel.MaxReportURLs/2 || n > channel.MaxReport {
		t.Errorf("%d links of %d bytes are kept, in a report of %d", len(b.Report.Inter), size, n)
	}
}

// TestClockSetBack has a claim be dated later than now, or less long ago than it was made: pages are bounded as far as it is known how long ago that was, and no time is later than
// now.
func TestClockSetBack(t *testing.T) {
	for _, c := range []struct {
		claimed  time.Time
		setBack  time.Duration
		pages    int
		tooQuick bool
	}{
		{claimed: noon.Add(15 * time.Second), pages: 1000},
		{claimed: noon.Add(-5 * time.Second), pages: 100, tooQuick: true},
		{claimed: noon.Add(-5 * time.Second), setBack: time.Minute, pages: 100},
		{claimed: noon.Add(5 * time.Second), setBack: time.Minute, pages: 100},
		{claimed: noon.Add(5 * time.Second), setBack: time.Minute, pages: 1000, tooQuick: true},
		{pages: 1000},
	} {
		tk := task()
		tk.Budget, tk.Claimed, tk.SetBack = 0, c.claimed, c.setBack
		b := &channel.ChunkBody{Report: &channel.Report{Outcome: channel.Updated, Started: noon.Add(-time.Minute), Ended: noon}}
		for n := range c.pages {
			b.Pages = append(b.Pages, page(fmt.Sprint("/", n), "text"))
		}
		var sum Sum
		if _, _, err := Screen(noon, tk, &sum, b); errors.Is(err, ErrPace) != c.tooQuick || err != nil && !c.tooQuick {
			t.Errorf("%+v: %v", c, err)
		}
		if r := b.Report; r.Started.After(noon) || r.Ended.After(noon) || b.Pages[0].Fetched.After(noon) {
			t.Errorf("%+v: a page of %v, a crawl from %v to %v; it is %v", c, b.Pages[0].Fetched, r.Started, r.Ended, noon)
		}
	}
}

// Leads are what pages link to beyond their task, each once, and no more than a report may have.
func TestLeads(t *testing.T) {
	tk := task()
	p := page("/", "home")
	p.Links = []string{host + "/a", "http://b.example/", "HTTP://c.example", "http://b.example/"}
	var sum Sum
	if got := tk.Leads(&sum, []channel.Page{p, p}); len(got) != 1 || got[0] != "http://b.example/" || sum.Leads != 1 || sum.LeadBytes != int64(len(got[0])) {
		t.Errorf("%v, %+v; want one", got, sum)
	}
	p.Links = nil
	for i := range channel.MaxPageLinks {
		p.Links = append(p.Links, fmt.Sprintf("http://d.example/%d", i))
	}
	sum = Sum{Answered: 2}
	if got := tk.Leads(&sum, []channel.Page{p}); len(got) != interSlack+2*interOfPage || len(tk.Leads(&sum, []channel.Page{p})) > 0 {
		t.Errorf("%d of two pages, want %d and then no more", len(got), interSlack+2*interOfPage)
	}
}
