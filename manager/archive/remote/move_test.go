package remote

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive"
	"shoal/manager/archive/ledger/pgledger"
)

// holdsAll wants the pages of some channels to be in the archive of a data folder.
func holdsAll(t *testing.T, data string, channels ...channel.ID) {
	t.Helper()
	cfg, err := Config(data, archive.Config{Dir: filepath.Join(data, "archive"), Verify: trusting})
	if err != nil {
		t.Fatal(err)
	}
	a, err := archive.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	v, err := a.Verify(t.Context(), nil)
	if err != nil || v.Found > 0 {
		t.Errorf("problems %v, %v", v.Problems, err)
	}
	for _, id := range channels {
		signed, _ := task(id)
		h, err := channel.ParseHeader(signed.Raw)
		if err != nil {
			t.Fatal(err)
		}
		url := h.Host + "/1"
		if p, err := a.Get(t.Context(), url, time.Time{}); err != nil || string(p.Body) != bodyOf(url) {
			t.Errorf("%s: %q, %v", url, p.Body, err)
		}
	}
}

// filled makes an archive of several files in a data folder, a file a channel.
func filled(t *testing.T, data string, channels ...channel.ID) {
	t.Helper()
	a, err := archive.Open(t.Context(), archive.Config{Dir: filepath.Join(data, "archive"), Unpaced: true, NoText: true, RankEvery: -1, Verify: trusting})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range channels {
		if err := crawl(a, id, 2, make(chan string, 2)); err != nil {
			t.Fatal(err)
		}
		if err := a.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMoveBrokenOff breaks a migration off on its way there and back. The archive stays where it was, whole; the next try goes on, and sends or
// fetches nothing twice.
func TestMoveBrokenOff(t *testing.T) {
	db, store := pglab.Shared(t), s3lab.Start(t, s3lab.Options{})
	data := t.TempDir()
	place := Place{DB: db.URL(), Bucket: store.URL(), Network: [32]byte{1}}
	if err := Note(data, DatabaseFile, place.DB); err != nil {
		t.Fatal(err)
	}
	filled(t, data, 1, 2, 3)
	var sent, fetched atomic.Int64
	broken := func(method, part string, after int64, count *atomic.Int64) func(*http.Request) s3lab.Fault {
		return func(r *http.Request) s3lab.Fault {
			if r.Method == method && strings.Contains(r.URL.Path, part) && count.Add(1) > after {
				return s3lab.Fault{Status: http.StatusForbidden}
			}
			return s3lab.Fault{}
		}
	}
	quiet := func(string) {}
	for _, b := range []struct { // in this order: the second try sends the files, and the next one has none to break off at
		name, part string
		after      int64
	}{{"at the second file", "/warc/", 1}, {"at the ledger", "/ledger/", 0}} {
		sent.Store(0)
		store.Break(broken(http.MethodPut, b.part, b.after, &sent))
		if _, err := Up(t.Context(), data, place, quiet); err == nil {
			t.Errorf("broken off %s, it did not fail", b.name)
		}
		if p, err := Of(data); err != nil || p != nil {
			t.Errorf("broken off %s, the folder names a bucket: %v", b.name, err)
		}
		holdsAll(t, data, 1, 2, 3)
	}
	sent.Store(0)
	store.Break(broken(http.MethodPut, "/warc/", 1000, &sent))
	moved, err := Up(t.Context(), data, place, quiet)
	if err != nil || moved.Segments != 3 || sent.Load() > 0 {
		t.Fatalf("%+v, %v; %d files were sent again", moved, err, sent.Load())
	}
	holdsAll(t, data, 1, 2, 3)
	if err := os.RemoveAll(filepath.Join(data, "archive")); err != nil { // this machine's copy
		t.Fatal(err)
	}
	holdsAll(t, data, 1, 2, 3)

	store.Break(broken(http.MethodGet, "/warc/shoal", 5, &fetched)) // the reading before takes three
	if _, err := Down(t.Context(), data, place, quiet); err == nil {
		t.Error("broken off on its way back, it did not fail")
	}
	store.Break(nil)
	holdsAll(t, data, 1, 2, 3)
	if p, err := Of(data); err != nil || p == nil {
		t.Errorf("the folder has forgotten its bucket: %v", err)
	}
	if moved, err = Down(t.Context(), data, place, quiet); err != nil || moved.Segments != 3 {
		t.Fatalf("back: %+v, %v", moved, err)
	}
	if p, err := Of(data); err != nil || p != nil {
		t.Errorf("the folder still names a bucket: %v", err)
	}
	holdsAll(t, data, 1, 2, 3)
	filled(t, data, 4) // and goes on
	holdsAll(t, data, 1, 2, 3, 4)
	sent.Store(0)
	store.Break(broken(http.MethodPut, "/warc/", 1000, &sent))
	if _, err := Up(t.Context(), data, place, quiet); !errors.Is(err, pgledger.ErrNotEmpty) || sent.Load() > 0 {
		t.Errorf("to a server that holds an archive: %v, %d files sent", err, sent.Load())
	}
	holdsAll(t, data, 1, 2, 3, 4)
}
