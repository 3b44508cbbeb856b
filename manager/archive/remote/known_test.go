package remote

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive"
)

// another makes another database on a server, and gives its URL.
func another(t *testing.T, s *pglab.Server) string {
	t.Helper()
	sql, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer sql.Close(t.Context())
	if _, err := sql.Exec(t.Context(), `DROP DATABASE IF EXISTS another WITH (FORCE)`); err != nil {
		t.Fatal(err)
	}
	if _, err := sql.Exec(t.Context(), `CREATE DATABASE another`); err != nil {
		t.Fatal(err)
	}
	before, query, _ := strings.Cut(s.URL(), "?")
	return before[:strings.LastIndex(before, "/")] + "/another?" + query
}

// TestEmptyDatabase opens an archive whose bucket is full and whose database is empty, as when another one is named, or the server's disk was lost: alone and as
// one of several, on this machine and on a new one. Nothing is taken for what nobody refers to, and the right database goes on. A rebuild makes a ledger
// from the pages.
func TestEmptyDatabase(t *testing.T) {
	db, store := pglab.Shared(t), s3lab.Start(t, s3lab.Options{})
	wrong := another(t, db)
	place := Place{DB: db.URL(), Bucket: store.URL(), Network: [32]byte{1}}
	own := quick(t, place)
	a, err := archive.Open(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(crawl(a, 1, 2, make(chan string, 2)), a.Close()); err != nil {
		t.Fatal(err)
	}
	before, err := store.Objects()
	if err != nil {
		t.Fatal(err)
	}
	unchanged := func(when string) {
		t.Helper()
		if now, err := store.Objects(); err != nil || !slices.Equal(now, before) {
			t.Errorf("%s: %d objects were there, now %d (%v)", when, len(before), len(now), err)
		}
	}
	place.DB = wrong
	if err := place.Check(t.Context()); !errors.Is(err, ErrForgotten) {
		t.Errorf("before it is opened: %v", err)
	}
	sql, err := pgx.Connect(t.Context(), wrong)
	if err != nil {
		t.Fatal(err)
	}
	defer sql.Close(t.Context())
	var schemas int
	if err := sql.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'shoal%'`).Scan(&schemas); err != nil || schemas > 0 {
		t.Errorf("a look has made %d schemas, %v", schemas, err)
	}
	for _, writer := range []string{"", "one of several"} {
		place.Writer = writer
		for _, dir := range []string{own.Dir, filepath.Join(t.TempDir(), "archive")} {
			cfg := quick(t, place)
			cfg.Dir = dir
			a, err := archive.Open(t.Context(), cfg)
			if err == nil {
				err = errors.Join(crawl(a, 2, 2, make(chan string, 2)), a.Close())
			}
			if !errors.Is(err, ErrForgotten) || !strings.Contains(err.Error(), "restore that one") || !strings.Contains(err.Error(), store.URL()[strings.LastIndex(store.URL(), "/"):strings.Index(store.URL(), "?")]) {
				t.Errorf("writer %q: %v", writer, err)
			}
			unchanged(writer)
		}
	}
	place.DB, place.Writer = db.URL(), ""
	cfg := quick(t, place)
	cfg.Dir = own.Dir
	if a, err = archive.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if v, err := a.Verify(t.Context(), nil); err != nil || v.Found > 0 || v.Captures != 2 {
		t.Errorf("with the right database: %d captures, problems %v, %v", v.Captures, v.Problems, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}

	place.DB = wrong // what is left when there is no backup
	cfg = quick(t, place)
	if out, err := archive.Rebuild(t.Context(), cfg); err != nil || out.Pages != 2 {
		t.Fatalf("rebuilt %+v, %v", out, err)
	}
	if a, err = archive.Open(t.Context(), quick(t, place)); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := crawl(a, 3, 2, make(chan string, 2)); err != nil {
		t.Error(err)
	}
	signed, _ := task(1)
	h, err := channel.ParseHeader(signed.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := a.Get(t.Context(), h.Host+"/1", time.Time{}); err != nil || string(p.Body) != bodyOf(h.Host+"/1") {
		t.Errorf("after the rebuild: %q, %v", p.Body, err)
	}
}

// TestEmptyServers refuses to empty this machine's copy where database and bucket are both empty: it is all that is left of the ledger.
func TestEmptyServers(t *testing.T) {
	db, store := pglab.Shared(t), s3lab.Start(t, s3lab.Options{})
	place := Place{DB: db.URL(), Bucket: store.URL()}
	cfg := quick(t, place)
	a, err := archive.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(crawl(a, 1, 2, make(chan string, 2)), a.Close()); err != nil {
		t.Fatal(err)
	}
	other := Place{DB: another(t, db), Bucket: s3lab.Start(t, s3lab.Options{}).URL()}
	again := quick(t, other)
	again.Dir = cfg.Dir
	if a, err := archive.Open(t.Context(), again); !errors.Is(err, archive.ErrState) || !strings.Contains(err.Error(), "copy of an archive") {
		t.Errorf("opened %v, %v", a, err)
	}
	if err := os.RemoveAll(cfg.Dir); err != nil {
		t.Fatal(err)
	}
	if a, err = archive.Open(t.Context(), again); err != nil {
		t.Fatalf("without the copy: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
