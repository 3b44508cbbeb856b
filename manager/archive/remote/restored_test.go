package remote

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
	"shoal/manager/archive/upkeep"
)

// restoredBefore restores a backup as builds did before 0.2.0: the ledger says of files in which objects they were.
func restoredBefore(ctx context.Context, backup, dir string) error {
	files, state := filepath.Join(dir, "warc"), filepath.Join(dir, "state")
	if err := errors.Join(os.MkdirAll(files, 0o750), os.MkdirAll(state, 0o750)); err != nil {
		return err
	}
	return upkeep.Restore(ctx, backup, files, func(r io.Reader) error {
		return badgerledger.Restore(state, bufio.NewReader(r), time.Now())
	})
}

// TestRestoredMovesUp makes a backup of an archive on servers while two managers write to it, restores it to a folder, and moves that to other servers, stopped and
// running. All pages are there, and stay there when the archive goes on.
func TestRestoredMovesUp(t *testing.T) {
	db, store := pglab.Shared(t), s3lab.Start(t, s3lab.Options{})
	both := besides(t, db, store, "one", "two")
	if err := errors.Join(crawl(both[0], 1, 3, make(chan string, 3)), crawl(both[1], 2, 3, make(chan string, 3))); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if err := both[0].Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	quiet := func(string) {}
	stopped := func(data string, to Place) (Moved, error) { return Up(t.Context(), data, to, quiet) }
	running := func(data string, to Place) (Moved, error) {
		a, err := archive.Open(t.Context(), archive.Config{Dir: filepath.Join(data, "archive"), Unpaced: true, NoText: true, RankEvery: -1, Verify: trusting})
		if err != nil {
			return Moved{}, err
		}
		ahead, err := UpAhead(t.Context(), a, ledger.ID(a.Ledger), data, to, quiet)
		if err = errors.Join(err, a.Close()); err != nil {
			return Moved{}, err
		}
		return UpRest(t.Context(), data, to, ahead, quiet)
	}
	for _, c := range []struct {
		name    string
		restore func(ctx context.Context, backup, dir string) error
		up      func(data string, to Place) (Moved, error)
	}{{"stopped", archive.Restore, stopped}, {"running", archive.Restore, running}, {"stopped, restored before", restoredBefore, stopped}, {"running, restored before", restoredBefore, running}} {
		t.Run(c.name, func(t *testing.T) {
			data, there := t.TempDir(), s3lab.Start(t, s3lab.Options{})
			to := Place{DB: another(t, db), Bucket: there.URL(), Network: [32]byte{1}}
			if err := errors.Join(c.restore(t.Context(), backup, filepath.Join(data, "archive")), Note(data, DatabaseFile, to.DB)); err != nil {
				t.Fatal(err)
			}
			if moved, err := c.up(data, to); err != nil || moved.Captures != 6 {
				t.Fatalf("%+v, %v", moved, err)
			}
			a, err := archive.Open(t.Context(), quick(t, to))
			if err != nil {
				t.Fatal(err)
			}
			all, err := a.Segments(t.Context())
			if err != nil || len(all) < 2 {
				t.Errorf("%d files, %v", len(all), err)
			}
			for _, s := range all {
				if !s.Sealed || s.Parts != "" {
					t.Errorf("%s: sealed %v, in parts %v", s.Name, s.Sealed, s.Parts != "")
				}
			}
			if err := errors.Join(crawl(a, 3, 1, make(chan string, 1)), a.Close()); err != nil { // from now on objects that belong to no file are removed
				t.Fatal(err)
			}
			holdsAll(t, data, 1, 2, 3)
		})
	}
}

// TestRestoredFolderIsWhole restores a backup of an archive to which two managers wrote: each file is in one part, and no file but the last one waits for a manager
// that will not come back, so that what is removed from it can be compacted away.
func TestRestoredFolderIsWhole(t *testing.T) {
	both := besides(t, pglab.Shared(t), s3lab.Start(t, s3lab.Options{}), "one", "two")
	if err := errors.Join(crawl(both[0], 1, 2, make(chan string, 2)), crawl(both[1], 2, 2, make(chan string, 2))); err != nil {
		t.Fatal(err)
	}
	backup, data := filepath.Join(t.TempDir(), "backup"), t.TempDir()
	if err := errors.Join(both[0].Backup(t.Context(), backup), archive.Restore(t.Context(), backup, filepath.Join(data, "archive"))); err != nil {
		t.Fatal(err)
	}
	a, err := archive.Open(t.Context(), archive.Config{Dir: filepath.Join(data, "archive"), Unpaced: true, NoText: true, RankEvery: -1, Verify: trusting})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	all, err := a.Segments(t.Context())
	if err != nil || len(all) < 2 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	for n, s := range all {
		if s.Parts != "" || n < len(all)-1 && !s.Sealed {
			t.Errorf("%s: sealed %v, in parts %v", s.Name, s.Sealed, s.Parts != "")
		}
	}
}
