package archive

import (
	"slices"
	"testing"
	"time"

	"shoal/channel"
)

// TestMove makes a directory's pages another channel's: that one knows them, the old one does not, and all are found as before.
func TestMove(t *testing.T) {
	cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	cfg := testConfig(t.TempDir())
	cfg.Clock = cl.Now
	a := open(t, cfg)
	r, _ := start(t, a, "p", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", "home "+long, channel.New), r.page("/a", "a "+long, channel.New),
		r.page("/a/x", "x "+long, channel.New), r.page("/ab", "ab "+long, channel.New)}})
	cl.now = cl.now.Add(time.Hour)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/a/x", "x changed "+long, channel.Changed)}, Report: r.report(channel.Updated)})

	// What was not visited since is named, what waits longest first.
	if k, err := a.Known(t.Context(), 1, cl.now); err != nil || !slices.Equal(k.Missed, []string{r.url("/"), r.url("/a"), r.url("/ab")}) {
		t.Errorf("missed %v, %v", k.Missed, err)
	}
	scope := channel.Scope{Kind: channel.Directory, Host: "http://site-1.example", Dirs: []string{"/a/"}}
	m, err := scope.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := a.Move(t.Context(), 1, 2, m); err != nil || n != 2 {
		t.Fatalf("%d pages moved, %v", n, err)
	}
	for id, want := range map[channel.ID]int{1: 2, 2: 2} {
		k, err := a.Known(t.Context(), id, cl.now)
		if err != nil || k.Pages != want || len(k.Digests) != want {
			t.Errorf("channel %d knows %d pages, %v", id, k.Pages, err)
		}
	}
	p, err := a.Page(t.Context(), r.url("/a/x"))
	if err != nil || p.Channel != 2 || p.Visits != 2 || len(p.History) == 0 {
		t.Errorf("a page that was moved: %+v, %v", p, err)
	}
	if got, err := a.Get(t.Context(), r.url("/a/x"), time.Time{}); err != nil || string(got.Body) != "x changed "+long {
		t.Errorf("its content: %.20q, %v", got.Body, err)
	}
	if p, err := a.Page(t.Context(), r.url("/ab")); err != nil || p.Channel != 1 {
		t.Errorf("a page that was not: %+v, %v", p, err)
	}
	clean(t, a)
}
