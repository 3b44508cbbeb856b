package smallbucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/internal/smallbucket"
	"shoal/manager/archive/bucket"
)

// TestBucket does with the store all that an archive does with a bucket.
func TestBucket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := smallbucket.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(store)
	defer front.Close()
	cfg := bucket.Config{URL: store.URL(front.Listener.Addr().String()), Network: [32]byte{7}}
	b, err := bucket.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Network = [32]byte{8}
	if _, err := bucket.Open(t.Context(), cfg); !errors.Is(err, bucket.ErrOtherNetwork) {
		t.Errorf("another network's: %v", err)
	}
	body := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	if err := b.Put(t.Context(), "warc/00/0700", body[:700]); err != nil {
		t.Fatal(err)
	}
	for n := range 1202 { // more than one answer lists
		name := filepath.Join(dir, "objects", "warc", fmt.Sprint(n%7+1), fmt.Sprint(n))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.PutFrom(t.Context(), "ledger/large", io.MultiReader(bytes.NewReader(body), strings.NewReader("end")), -1); err != nil {
		t.Fatal(err)
	}
	seen, last := 0, ""
	if err := b.List(t.Context(), "warc/", func(o bucket.Object) error {
		if seen++; o.Name <= last {
			t.Errorf("%s is listed behind %s", o.Name, last)
		}
		last = o.Name
		return nil
	}); err != nil || seen != 1203 {
		t.Errorf("%d objects are listed, %v", seen, err)
	}
	read := func(name string, from, n int64) string {
		t.Helper()
		in, err := b.Get(t.Context(), name, from, n)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := read("ledger/large", int64(len(body)-2), -1); got != "efend" {
		t.Errorf("an object of parts ends in %q", got)
	}
	if got := read("warc/00/0700", 16, 5); got != "01234" {
		t.Errorf("from the middle: %q", got)
	}
	if err := b.Remove(t.Context(), "warc/00/0700"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(context.Background(), "warc/00/0700", 0, -1); !errors.Is(err, bucket.ErrNoObject) {
		t.Errorf("removed: %v", err)
	}
	again, err := smallbucket.Open(dir)
	if err != nil || again.URL("x") != store.URL("x") {
		t.Errorf("opened again it has another name: %v", err)
	}
	name, _, _ := strings.Cut(store.URL("x"), "?")
	for _, path := range []string{"/other/ledger/large", "/" + filepath.Base(name) + "/../name"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://x/", nil)
		r.URL.Path = path
		store.ServeHTTP(w, r)
		if w.Code == 200 {
			t.Errorf("%s was answered: %s", path, w.Body)
		}
	}
	for _, x := range []struct {
		method, query string
		size          int64
		want          int
	}{{"DELETE", "?uploadId=00", 0, 404}, {"PUT", "", 5<<30 + 1, 400}} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(x.method, "http://x/"+filepath.Base(name)+"/one"+x.query, strings.NewReader("a body"))
		r.ContentLength = x.size
		store.ServeHTTP(w, r)
		if w.Code != x.want || !strings.Contains(w.Body.String(), "<Error>") {
			t.Errorf("%s%s: %d %s, want %d", x.method, x.query, w.Code, w.Body, x.want)
		}
	}
}
