package archive

import (
	"fmt"
	"testing"

	"shoal/channel"
)

// TestToldAsNew has a peer call pages new that are stored already, since it was not told of them: the manager hears what became of each. Part of the
// crawl is of another peer.
func TestToldAsNew(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "alice", 1, 1)
	rep := r.report(channel.Updated)
	rep.Pages, rep.New = 3, 3
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", long, channel.New), r.page("/a", long+"a", channel.New), r.page("/b", long+"b", channel.New)}, Report: rep})

	r, _ = start(t, a, "alice", 1, 2)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", long, channel.New)}})
	if _, err := a.Release(t.Context(), "alice", 1, 2); err != nil {
		t.Fatal(err)
	}
	r, _ = start(t, a, "bob", 1, 3)
	rep = r.report(channel.Updated)
	rep.Pages, rep.New = 3, 3
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/a", long+"a", channel.New), r.page("/b", long+"otherwise", channel.New), r.page("/c", long+"c", channel.New)}, Report: rep})

	entries, _, err := a.Feed(t.Context(), "", MaxFeed)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range entries {
		if r := e.Report; r != nil {
			told = append(told, fmt.Sprintf("%d new, %d changed, %d near, %d unchanged", r.New, r.Changed, r.NearUnchanged, r.Unchanged))
		}
	}
	if want := []string{"3 new, 0 changed, 0 near, 0 unchanged", "1 new, 1 changed, 0 near, 2 unchanged"}; fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
