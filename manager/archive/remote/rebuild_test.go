package remote

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive"
)

// TestRebuild loses the server's ledger, and makes it anew from the objects in the bucket.
func TestRebuild(t *testing.T) {
	db, store := pglab.Shared(t), s3lab.Start(t, s3lab.Options{})
	place := Place{DB: db.URL(), Bucket: store.URL()}
	a, err := archive.Open(t.Context(), quick(t, place))
	if err != nil {
		t.Fatal(err)
	}
	stored := make(chan string, 10)
	for id := channel.ID(1); id <= 2; id++ {
		if err := crawl(a, id, 5, stored); err != nil {
			t.Fatal(err)
		}
	}
	close(stored)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	sql, err := pgx.Connect(t.Context(), db.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sql.Exec(t.Context(), `UPDATE shoal_archive.log SET body = 'nonsense' WHERE seq = 3`); err != nil {
		t.Fatal(err)
	}
	if err := sql.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost := quick(t, place)
	if _, err := archive.Open(t.Context(), lost); !errors.Is(err, archive.ErrState) {
		t.Fatalf("a log that cannot be read: %v", err)
	}
	out, err := archive.Rebuild(t.Context(), lost)
	if err != nil || out.Pages != 10 || out.Damaged > 0 {
		t.Fatalf("rebuilt %+v, %v", out, err)
	}
	if a, err = archive.Open(t.Context(), quick(t, place)); err != nil { // on another machine
		t.Fatal(err)
	}
	defer a.Close()
	for url := range stored {
		if p, err := a.Get(t.Context(), url, time.Time{}); err != nil || string(p.Body) != bodyOf(url) {
			t.Errorf("%s: %q, %v", url, p.Body, err)
		}
	}
	if v, err := a.Verify(t.Context(), nil); err != nil || v.Found > 0 || v.Captures != 10 {
		t.Errorf("%d captures, problems %v, %v", v.Captures, v.Problems, err)
	}
	if err := crawl(a, 3, 2, make(chan string, 2)); err != nil { // and it goes on
		t.Error(err)
	}
}
