package pgserver_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
				if err := os.RemoveAll(s.Data()); err != nil {
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
