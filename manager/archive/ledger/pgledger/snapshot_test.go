package pgledger

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger"
)

// TestSnapshots makes one after the other. The log is shortened; old ones stay for as long as a backup of the server may need them; a damaged one
// is named.
func TestSnapshots(t *testing.T) {
	lab := s3lab.Start(t, s3lab.Options{})
	b, err := bucket.Open(t.Context(), bucket.Config{URL: lab.URL()})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	cfg := configOf(t, pglab.Shared(t), "")
	cfg.Objects, cfg.SnapshotAfter, cfg.Clock = b, 1, func() time.Time { return now }
	s := open(t, cfg)
	reader := open(t, elsewhere(t, cfg))
	must(t, s, 1, 4)
	reader.Tidy(t.Context()) // it is not the writer
	names := func(want int) []string {
		t.Helper()
		all, err := lab.Objects()
		if err != nil || len(all) != want {
			t.Errorf("objects %q, %v; want %d", all, err, want)
		}
		return all
	}
	names(0)
	s.Tidy(t.Context())
	first := names(1)
	s.Tidy(t.Context()) // nothing has been written since
	names(1)
	must(t, s, 5, 8)
	s.Tidy(t.Context())
	names(2)
	now = now.Add(keepSnapshots + time.Hour)
	must(t, s, 9, 12)
	s.Tidy(t.Context())
	last := names(1)
	if len(first) > 0 && len(last) > 0 && first[0] == last[0] {
		t.Errorf("the old snapshot %s stayed, the new one went", first[0])
	}
	var entries int
	if err := s.server.Pool().QueryRow(t.Context(), `SELECT count(*) FROM log`).Scan(&entries); err != nil || entries != 1 {
		t.Errorf("%d entries in the log, %v; want the last one", entries, err)
	}
	must(t, s, 13, 14)
	holds(t, open(t, elsewhere(t, cfg)), 14)
	if err := s.Check(t.Context(), 0); err != nil {
		t.Errorf("check: %v", err)
	}
	if err := os.Truncate(lab.File(last[0]), 20); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "snapshot") {
		t.Errorf("check of a damaged snapshot: %v", err)
	}
	if _, err := Open(t.Context(), elsewhere(t, cfg)); !errors.Is(err, ledger.ErrState) && !errors.Is(err, bucket.ErrUnreachable) {
		t.Errorf("opened from a damaged snapshot: %v", err)
	}
}
