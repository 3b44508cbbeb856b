package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
)

// shortened makes an archive of 120 pages, a copy of one of them and a page that goes, with a feed that retention has shortened to what changed on its last day: one page.
func shortened(t *testing.T) (*Archive, *clock) {
	cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	cfg := testConfig(t.TempDir())
	cfg.Clock = cl.Now
	a := open(t, cfg)
	r, _ := start(t, a, "alice", 1, 1)
	pages := []channel.Page{r.page("/copy", "page 7 "+long, channel.New), r.page("/goes", "goes "+long, channel.New)}
	for n := range 120 {
		pages = append(pages, r.page(fmt.Sprint("/", n), fmt.Sprintf("page %d %s", n, long), channel.New))
	}
	r.put(channel.ChunkBody{Pages: pages, Report: r.report(channel.Updated)})
	cl.now = cl.now.Add(30 * 24 * time.Hour)
	r, _ = start(t, a, "bob", 1, 2)
	same := r.page("/3", "", channel.Unchanged)
	same.Status = 304
	r.put(channel.ChunkBody{Pages: []channel.Page{
		same, {URL: r.url("/goes"), Status: 404, Change: channel.Gone, Header: []byte("HTTP/1.1 404 Not Found\r\n\r\n")},
	}, Report: r.report(channel.Updated)})
	cl.now = cl.now.Add(70 * 24 * time.Hour)
	r, _ = start(t, a, "bob", 1, 3)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/5", "page 5 is new "+long, channel.Changed)}, Report: r.report(channel.Updated)})
	for n := 1; n > 0; {
		var err error
		if n, err = a.ExtractText(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := a.Retain(t.Context(), Retention{Feed: 24 * time.Hour}); err != nil || got.Entries == 0 {
		t.Fatal(got, err)
	}
	return a, cl
}

// linesOf exports as JSON, a number of changes at a time.
func linesOf(t *testing.T, a *Archive, since string, at int, f Filter) (all []Line, next string) {
	t.Helper()
	for {
		var out bytes.Buffer
		next, err := a.Export(t.Context(), &out, ExportOptions{Since: since, Format: FormatJSON, Limit: at, Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		n := len(all)
		for d := json.NewDecoder(&out); d.More(); {
			var l Line
			if err := d.Decode(&l); err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
		if at == 0 || len(all)-n < at {
			return all, next
		}
		since = next
	}
}

// TestExportFromTheBeginningIsWhole exports all pages that are there after retention has taken most of the feed, in one go and in parts, and goes on from there.
func TestExportFromTheBeginningIsWhole(t *testing.T) {
	a, _ := shortened(t)
	all, next := linesOf(t, a, "", 0, Filter{})
	texts := map[string]string{}
	for _, l := range all {
		if l.Event != "created" || l.Status != 200 || l.State != "provisional" || l.Removed {
			t.Errorf("line %+v", l)
		}
		texts[strings.TrimPrefix(l.URL, "http://site-1.example")] = l.Text
	}
	if len(all) != 121 || len(texts) != 121 {
		t.Fatalf("%d lines of %d pages, want 121", len(all), len(texts))
	}
	for path, begins := range map[string]string{"/copy": "page 7 ", "/3": "page 3 ", "/5": "page 5 is new ", "/119": "page 119 "} {
		if !strings.HasPrefix(texts[path], begins) {
			t.Errorf("%s has the text %.20q", path, texts[path])
		}
	}
	parts, end := linesOf(t, a, "", 7, Filter{})
	if end != next || !slices.EqualFunc(all, parts, func(x, y Line) bool { return x.Cursor == y.Cursor && x.URL == y.URL && x.Text == y.Text }) {
		t.Errorf("in parts there are %d lines, up to %s, not %s", len(parts), end, next)
	}
	r, _ := start(t, a, "bob", 1, 4)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/5", "page 5 is newer "+long, channel.Changed)}, Report: r.report(channel.Updated)})
	if more, _ := linesOf(t, a, next, 0, Filter{}); len(more) != 1 || more[0].Event != "changed" {
		t.Errorf("then %+v", more)
	}
	half, _ := linesOf(t, a, all[59].Cursor, 0, Filter{})
	if len(half) != 62 || half[61].Event != "changed" {
		t.Errorf("%d lines from the middle", len(half))
	}
	for who, want := range map[string]int{"alice": 120, "bob": 1} {
		if lines, _ := linesOf(t, a, "", 0, Filter{Deliverer: who}); len(lines) != want {
			t.Errorf("%d pages by %s, want %d", len(lines), who, want)
		}
	}
	if lines, _ := linesOf(t, a, "", 0, Filter{Verified: true}); len(lines) != 0 {
		t.Errorf("verified is %+v", lines)
	}
	s := httptest.NewServer(a.Handler())
	defer s.Close()
	if _, body := ask(t, s, "/changes", "limit", "1000"); strings.Count(body, "\n") != 121 {
		t.Errorf("the feed from the beginning has %d lines", strings.Count(body, "\n"))
	}
}

// A cursor among the pages that are there is refused when the feed does not go back any more to when its reader began.
func TestOldCursorAmongPages(t *testing.T) {
	a, cl := shortened(t)
	all, next := linesOf(t, a, "", 5, Filter{})
	r, _ := start(t, a, "bob", 1, 4)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/5", "page 5 is newer "+long, channel.Changed)}, Report: r.report(channel.Updated)})
	if _, err := a.ExtractText(t.Context()); err != nil {
		t.Fatal(err)
	}
	cl.now = cl.now.Add(48 * time.Hour)
	if _, err := a.Retain(t.Context(), Retention{Feed: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	for _, cursor := range []string{all[3].Cursor, next} {
		if _, _, err := a.ChangesOf(t.Context(), cursor, 10, Filter{}); !errors.Is(err, ErrTrimmed) {
			t.Errorf("cursor %s: %v", cursor, err)
		}
	}
	b := open(t, testConfig(t.TempDir()))
	if _, _, err := b.ChangesOf(t.Context(), all[3].Cursor, 10, Filter{}); !errors.Is(err, ErrCursor) {
		t.Errorf("a cursor of another archive: %v", err)
	}
	if _, _, err := a.Changes(t.Context(), all[3].Cursor, 10); !errors.Is(err, ErrCursor) {
		t.Errorf("a cursor among pages, of the feed itself: %v", err)
	}
}
