package archive

import (
	"fmt"
	"testing"
	"time"

	"shoal/channel"
)

// TestReportOfAResumedCrawl has a crawl done in two parts, by two runners and over a restart of the archive; the manager is told of all of it.
// The next crawl begins from nothing.
func TestReportOfAResumedCrawl(t *testing.T) {
	cfg := testConfig(t.TempDir())
	clk := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.Clock = clk.Now
	a := open(t, cfg)
	begun := clk.now
	told := func(want string, started time.Time) {
		t.Helper()
		entries, _, err := a.Feed(t.Context(), "", MaxFeed)
		if err != nil {
			t.Fatal(err)
		}
		var r *channel.Report
		for _, e := range entries {
			if e.Report != nil {
				r = e.Report
			}
		}
		if r == nil {
			t.Fatal("no report in the feed")
		}
		got := fmt.Sprintf("%d pages: %d new, %d changed, %d near, %d unchanged, %d gone", r.Pages, r.New, r.Changed, r.NearUnchanged, r.Unchanged, r.Gone)
		if got != want || !r.Started.Equal(started) {
			t.Errorf("told of %s since %v, want %s since %v", got, r.Started, want, started)
		}
	}
	finish := func(r *runner, pages []channel.Page, n, fresh, changed int) {
		rep := r.report(channel.Updated)
		rep.Pages, rep.New, rep.Changed, rep.Started, rep.Ended = n, fresh, changed, clk.now, clk.now
		r.put(channel.ChunkBody{Pages: pages, Report: rep})
	}

	r, _ := start(t, a, "alice", 1, 1)
	gone := r.page("/gone", "", channel.Gone)
	gone.Status = 404
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", long, channel.New), r.page("/a", long+"a", channel.New), gone, {URL: r.url("/b"), Error: "reset", Change: channel.Errored}}})
	if _, err := a.Release(t.Context(), "alice", 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, cfg)
	clk.now = clk.now.Add(time.Minute)
	r, _ = start(t, a, "bob", 1, 2)
	finish(r, []channel.Page{r.page("/c", long+"c", channel.Changed)}, 1, 0, 1)
	told("4 pages: 2 new, 1 changed, 0 near, 0 unchanged, 1 gone", begun)

	clk.now = clk.now.Add(time.Minute)
	r, _ = start(t, a, "bob", 1, 3)
	finish(r, []channel.Page{r.page("/", long+"new", channel.Changed)}, 1, 0, 1)
	told("1 pages: 0 new, 1 changed, 0 near, 0 unchanged, 0 gone", clk.now)

	// One that brought nothing is not the beginning of what comes later.
	start(t, a, "alice", 1, 4)
	if _, err := a.Release(t.Context(), "alice", 1, 4); err != nil {
		t.Fatal(err)
	}
	clk.now = clk.now.Add(time.Minute)
	r, _ = start(t, a, "bob", 1, 5)
	finish(r, []channel.Page{r.page("/", long+"newer", channel.Changed), r.page("/a", long+"a", channel.Unchanged)}, 1, 0, 1)
	told("2 pages: 0 new, 1 changed, 0 near, 1 unchanged, 0 gone", clk.now)
}
