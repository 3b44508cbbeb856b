package archive

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/manager/archive/warc"
)

// stored is all that the archive's WARC files hold.
func stored(t *testing.T, a *Archive) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(a.cfg.Dir, "warc", "*.warc.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var all strings.Builder
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&all, z); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// TestTakedownGoesFirst asks for a takedown at each file that long work opens: it is done before the work has ended, which goes on with what is left. No byte of the
// host is there after the next compaction, and nothing of another host is lost.
func TestTakedownGoesFirst(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(*Archive) error{
		"compaction": func(a *Archive) error { _, err := a.Compact(t.Context(), 1); return err },
		"verification": func(a *Archive) error {
			v, err := a.Verify(t.Context(), nil)
			if v.Found > 0 {
				t.Errorf("it found %v", v.Problems)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked, first, last := 0, 0, 1
			for at := 1; at <= last; at += 1 + at/3 {
				opened, before := takeDownAmid(t, name, at, work)
				asked, last = asked+1, max(last, opened)
				if before {
					first++
				}
			}
			if first < asked || last < 3 {
				t.Errorf("of %d takedowns, while %d files were opened, %d were done before the end of the work", asked, last, first)
			}
		})
	}
}

// takeDownAmid asks for the takedown when work opens its file number at, and tells how many it opened, and whether the takedown was done before the work had ended.
func takeDownAmid(t *testing.T, name string, at int, work func(*Archive) error) (opened int, before bool) {
	t.Helper()
	a, _ := aged(t, t.TempDir())
	crawled(t, a, 3, "http://site-3.example")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	fsys := &amidFS{FS: warc.OS{}}
	cfg := testConfig(a.cfg.Dir)
	cfg.FS, cfg.Clock, cfg.Roll = fsys, a.cfg.Clock, a.cfg.Roll
	a = open(t, cfg)
	if _, err := a.Purge(t.Context(), hostsOf(t, "site-2.example")); err != nil { // what is to be compacted away
		t.Fatal(err)
	}
	hosts, purged := hostsOf(t, "site-1.example"), make(chan error, 1)
	take := func() {
		n, err := a.Purge(t.Context(), hosts)
		if err == nil && n != 2 {
			t.Errorf("%d pages were taken down", n)
		}
		purged <- err
	}
	var open func()
	open = func() {
		if w := a.Stats().Work; w == nil || w.What != name {
			fsys.opened = open
			return
		}
		if opened++; opened == at {
			go take()
			for w := a.Stats().Work; !slices.Contains(w.Waiting, "takedown"); w = a.Stats().Work {
				time.Sleep(time.Millisecond)
			}
		}
		fsys.opened = open
	}
	fsys.opened = open
	if err := work(a); err != nil {
		t.Errorf("file %d: %v", at, err)
	}
	if opened < at { // it opened no more
		take()
	}
	select {
	case err := <-purged:
		before = opened >= at
		if err != nil {
			t.Errorf("takedown at file %d: %v", at, err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the takedown at file %d did not come to its end", at)
	}
	fsys.opened = nil
	if _, err := a.Compact(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if c, err := a.Compact(t.Context(), 0); err != nil || c.Files != 0 {
		t.Errorf("file %d: compacted again: %+v, %v", at, c, err)
	}
	clean(t, a)
	if all := stored(t, a); strings.Contains(all, " of 1 ") || strings.Contains(all, " of 2 ") || !strings.Contains(all, "3"+long) {
		t.Errorf("file %d: one of the hosts is still there, or another is not", at)
	}
	if _, err := a.Get(t.Context(), "http://site-1.example/x", time.Time{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("file %d: a page of the host: %v", at, err)
	}
	if got, err := a.Get(t.Context(), "http://site-3.example/", time.Time{}); err != nil || string(got.Body) != "3"+long {
		t.Errorf("file %d: a page of another host: %.20q, %v", at, got.Body, err)
	}
	return opened, before
}
