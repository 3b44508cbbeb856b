package archive

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/warc"
)

// TestRebuildAfterACompaction makes the database anew from files in which the oldest records come last: what was found unchanged is there, each page is as its last visit
// saw it, and what lost its payload is counted.
func TestRebuildAfterACompaction(t *testing.T) {
	ctx := t.Context()
	cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	cfg := testConfig(t.TempDir())
	cfg.Clock, cfg.Roll = cl.Now, 6<<10
	a := open(t, cfg)
	other, _ := start(t, a, "p", 2, 1)
	other.put(channel.ChunkBody{Pages: []channel.Page{other.page("/taken-down", version(2, 1), channel.New)}, Report: other.report(channel.Updated)})
	for gen := channel.Gen(1); gen <= 8; gen++ {
		r, _ := start(t, a, "p", 1, gen)
		same, back := r.page("/same", "same "+long, channel.New), r.page("/back", "back "+long, channel.New)
		switch {
		case gen == 5:
			back = channel.Page{URL: r.url("/back"), Status: 404, Change: channel.Gone, Header: []byte("HTTP/1.1 404 Not Found\r\n\r\n"), Fetched: cl.now}
			fallthrough
		case gen > 1:
			same.Change, same.Body = channel.Unchanged, nil
			if gen%2 == 0 {
				same.Status, same.Header = 304, nil
			}
		}
		r.put(channel.ChunkBody{Pages: []channel.Page{same, back, r.page("/x", version(1, gen), channel.Changed)}, Report: r.report(channel.Updated)})
		cl.now = cl.now.Add(time.Hour)
	}
	hosts, err := channel.ParseHosts("site-2.example")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Purge(ctx, hosts); err != nil {
		t.Fatal(err)
	}
	if c, err := a.Compact(ctx, 0); err != nil || c.Files != 1 || c.Moved < 3 {
		t.Fatalf("compacted %+v, %v: the first file was to be rewritten", c, err)
	}
	want := clean(t, a).Captures
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.cfg.Dir, "state", "MANIFEST"), []byte("no manifest"), 0o640); err != nil {
		t.Fatal(err)
	}
	got, err := Rebuild(ctx, a.cfg)
	if err != nil || got.Pages != 3 || got.Captures != want || got.Damaged != 0 {
		t.Fatalf("rebuild: %+v, %v, want %d captures", got, err, want)
	}
	a = open(t, a.cfg)
	clean(t, a)
	for path, body := range map[string]string{"/same": "same " + long, "/back": "back " + long, "/x": version(1, 8)} {
		if c, err := a.Get(ctx, "http://site-1.example"+path, time.Time{}); err != nil || string(c.Body) != body {
			t.Errorf("%s is %.20q, %v", path, c.Body, err)
		}
		s, err := a.Page(ctx, "http://site-1.example"+path)
		if err != nil || !s.First.Equal(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)) || !s.Fetched.Equal(cl.now.Add(-time.Hour)) || s.Gone || s.Status != 200 {
			t.Errorf("%s: %+v, %v", path, s, err)
		}
	}
	if c, err := a.Get(ctx, "http://site-1.example/same", cl.now.Add(-210*time.Minute)); err != nil || !c.Revisit || string(c.Body) != "same "+long {
		t.Errorf("a visit that saw nothing new: %.20q, %v", c.Body, err)
	}
}

// TestRebuildCountsLostPayloads makes the database anew from files of which the one with a page's content is lost.
func TestRebuildCountsLostPayloads(t *testing.T) {
	a, _ := aged(t, t.TempDir())
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.cfg.Dir, "state", "MANIFEST"), []byte("no manifest"), 0o640); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for n, name := range warcFiles(t, a) {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for s := warc.NewScanner(f); s.Scan(); {
			if n > 0 && s.Record().Field("WARC-Type") == warc.Revisit {
				lost++
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := Rebuild(t.Context(), a.cfg); err != nil || lost == 0 || got.Damaged != lost {
		t.Errorf("rebuild: %+v, %v, want %d damaged", got, err, lost)
	}
}
