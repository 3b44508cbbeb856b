package pgserver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/internal/pgserver"
)

// TestStart starts a server in a folder, writes, ends it, and finds what was written when it runs again.
func TestStart(t *testing.T) {
	t.Parallel()
	if _, err := pgserver.Find(); errors.Is(err, pgserver.ErrNone) && os.Getenv("SHOAL_TEST_STRICT") != "1" {
		t.Skip(err)
	}
	dir, data := filepath.Join(t.TempDir(), "postgres"), ""
	for round := range 2 {
		s, err := pgserver.Start(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if data = s.Data(); round == 0 {
			t.Cleanup(func() {
				if err := os.RemoveAll(place(s)); err != nil {
					t.Error(err)
				}
			})
		}
		c, err := pgx.Connect(t.Context(), s.URL())
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			_, err = c.Exec(t.Context(), `CREATE TABLE kept AS SELECT 17 AS n`)
		} else {
			var n int
			if err = c.QueryRow(t.Context(), `SELECT n FROM kept`).Scan(&n); n != 17 {
				t.Errorf("read %d", n)
			}
		}
		if err = errors.Join(err, c.Close(t.Context()), s.Stop()); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() != 0 {
		return
	}
	if err := os.Chown(data, 12345, 12345); err != nil { // as anyone may do it who is first in a public place
		t.Fatal(err)
	}
	if s, err := pgserver.Start(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "another user's") {
		t.Errorf("PostgreSQL on another user's data: %v", err)
		if err == nil {
			_ = s.Stop() // the test has failed already
		}
	}
}

// place is the folder to delete with a server's own one.
func place(s *pgserver.Server) string {
	if os.Getuid() == 0 {
		return filepath.Dir(s.Data())
	}
	return s.Data()
}

// TestDeletedFolder deletes a server's folder: the next one there begins without data, and what root's server has left elsewhere is told. Then only that goes.
func TestDeletedFolder(t *testing.T) {
	t.Parallel()
	if _, err := pgserver.Find(); errors.Is(err, pgserver.ErrNone) && os.Getenv("SHOAL_TEST_STRICT") != "1" {
		t.Skip(err)
	}
	dir := filepath.Join(t.TempDir(), "postgres")
	var places []string
	for round := range 2 {
		s, err := pgserver.Start(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, place(s))
		t.Cleanup(func() {
			if err := os.RemoveAll(place(s)); err != nil {
				t.Error(err)
			}
		})
		c, err := pgx.Connect(t.Context(), s.URL())
		if err == nil {
			_, err = c.Exec(t.Context(), `CREATE TABLE once ()`)
			err = errors.Join(err, c.Close(t.Context()))
		}
		if err = errors.Join(err, s.Stop()); err != nil {
			t.Fatal(err)
		}
		var want []string
		if os.Getuid() == 0 {
			want = places[:round]
		}
		if !slices.Equal(s.Before(), want) {
			t.Errorf("start %d: the data of earlier folders is in %q, want %q", round, s.Before(), want)
		}
		if round == 0 {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if os.Getuid() != 0 {
		return
	}
	if err := os.RemoveAll(places[1]); err != nil {
		t.Fatal(err)
	}
	if s, err := pgserver.Start(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "not in "+places[1]+" any more") || !strings.Contains(err.Error(), "delete "+filepath.Dir(dir)) {
		t.Errorf("PostgreSQL whose data is gone: %v", err)
		if err == nil {
			_ = s.Stop() // the test has failed already
		}
	}
}

// TestKeep kills a server, as an out-of-memory killer does: it is started again, with what was written, and both are told.
func TestKeep(t *testing.T) {
	t.Parallel()
	if _, err := pgserver.Find(); errors.Is(err, pgserver.ErrNone) && os.Getenv("SHOAL_TEST_STRICT") != "1" {
		t.Skip(err)
	}
	s, err := pgserver.Start(t.Context(), filepath.Join(t.TempDir(), "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(place(s)); err != nil {
			t.Error(err)
		}
	})
	sql := func(text string) error {
		c, err := pgx.Connect(t.Context(), s.URL())
		if err != nil {
			return err
		}
		_, err = c.Exec(t.Context(), text)
		return errors.Join(err, c.Close(t.Context()))
	}
	if err := sql(`CREATE TABLE kept ()`); err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1000)
	ctx, end := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		s.Keep(ctx, 10*time.Millisecond, func(what string) { told <- what })
	}()
	pid, err := os.ReadFile(filepath.Join(s.Data(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(pid), "\n")
	n, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := os.FindProcess(n); err != nil || p.Kill() != nil {
		t.Fatal("the server cannot be killed")
	}
	if what := <-told; !strings.Contains(what, "PostgreSQL has ended (signal: killed)") {
		t.Errorf("told: %s", what)
	}
	what := <-told
	for ; strings.Contains(what, "does not start"); what = <-told { // processes of the first may still be there
	}
	if !strings.Contains(what, "runs again, as process ") {
		t.Errorf("told: %s", what)
	}
	if err := sql(`SELECT FROM kept`); err != nil {
		t.Error(err)
	}
	end()
	<-kept
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
