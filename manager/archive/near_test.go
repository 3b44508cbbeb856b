package archive

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"shoal/channel"
)

// TestNear counts a page that hardly changed as unchanged where change rates are learnt, stores it all the same, and notices when many
// small changes have become a large one.
func TestNear(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	words := strings.Fields(strings.Repeat("every good boy deserves favour and some other words follow in this long text of many ", 20))
	for n := range words {
		words[n] = fmt.Sprint(words[n], n)
	}
	reports := map[channel.Gen]string{}
	for gen := channel.Gen(1); gen <= 12; gen++ {
		r, _ := start(t, a, "p", 1, gen)
		words[int(gen)*20], words[int(gen)*20+9] = fmt.Sprint("edit", gen), fmt.Sprint("again", gen)
		doc := strings.Join(words, " ")
		var s channel.Shingler
		s.Add([]byte(doc))
		p := r.page("/", doc, channel.Changed)
		p.Shingle = s.Sum()
		rep := r.report(channel.Updated)
		rep.Changed = 1
		r.put(channel.ChunkBody{Pages: []channel.Page{p}, Report: rep})
	}
	entries, _, err := a.Feed(context.Background(), "", MaxFeed)
	if err != nil {
		t.Fatal(err)
	}
	near := 0
	for _, e := range entries {
		if r := e.Report; r != nil {
			reports[e.Gen] = fmt.Sprintf("%d+%d", r.Changed, r.NearUnchanged)
			near += r.NearUnchanged
		}
	}
	if reports[1] != "1+0" || reports[2] != "0+1" {
		t.Errorf("reports %v", reports)
	}
	if near == 11 || near < 5 {
		t.Errorf("%d of 11 small changes are near, none adds up: %v", near, reports)
	}
	changes, _, err := a.Changes(context.Background(), "", MaxFeed)
	if err != nil || len(changes) != 12 || changes[0].Near || !changes[1].Near {
		t.Errorf("changes %+v, %v", changes, err)
	}
}
