package pgledger

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
)

// aged has an object be older than it is.
func aged(t *testing.T, file string, by time.Duration) {
	t.Helper()
	at := time.Now().Add(-by)
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
}

// used is the name of the snapshot from which copies begin.
func used(t *testing.T, s *Store) (name string) {
	t.Helper()
	if err := s.server.Pool().QueryRow(t.Context(), `SELECT snapshot FROM heads`).Scan(&name); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestSnapshots makes one after the other. The log is shortened; old ones stay for as long as a backup of the server may need them; a damaged one
// is named.
func TestSnapshots(t *testing.T) {
	lab := s3lab.Start(t, s3lab.Options{})
	b, err := bucket.Open(t.Context(), bucket.Config{URL: lab.URL()})
	if err != nil {
		t.Fatal(err)
	}
	cfg := configOf(t, pglab.Shared(t), "")
	cfg.Objects, cfg.SnapshotAfter = b, 1
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
	for _, name := range names(2) { // a backup of the server may be of any moment since the second was made
		aged(t, lab.File(name), keepSnapshots+time.Hour)
	}
	must(t, s, 9, 12)
	s.Tidy(t.Context())
	second := names(2)
	if len(first) > 0 && slices.Contains(second, first[0]) {
		t.Errorf("the snapshot %s stayed, which no young backup needs", first[0])
	}
	must(t, s, 13, 14)
	s.Tidy(t.Context()) // one more does not end the time of the one that was in use until a moment ago
	names(3)
	var entries int
	if err := s.server.Pool().QueryRow(t.Context(), `SELECT count(*) FROM log`).Scan(&entries); err != nil || entries != 1 {
		t.Errorf("%d entries in the log, %v; want the last one", entries, err)
	}
	must(t, s, 15, 16)
	holds(t, open(t, elsewhere(t, cfg)), 16)
	if err := s.Check(t.Context(), 0); err != nil {
		t.Errorf("check: %v", err)
	}
	if err := os.Truncate(lab.File(used(t, s)), 20); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "snapshot") {
		t.Errorf("check of a damaged snapshot: %v", err)
	}
	if _, err := Open(t.Context(), elsewhere(t, cfg)); !errors.Is(err, ledger.ErrState) && !errors.Is(err, bucket.ErrUnreachable) {
		t.Errorf("opened from a damaged snapshot: %v", err)
	}
}

// shelved makes a ledger with objects in a bucket, which makes a snapshot at each Tidy.
func shelved(t *testing.T) (*s3lab.Store, Config) {
	t.Helper()
	lab := s3lab.Start(t, s3lab.Options{})
	b, err := bucket.Open(t.Context(), bucket.Config{URL: lab.URL()})
	if err != nil {
		t.Fatal(err)
	}
	cfg := configOf(t, pglab.Shared(t), "")
	cfg.Objects, cfg.SnapshotAfter = b, 1
	return lab, cfg
}

// TestBackupOfLastNight restores the server to last night, from when the snapshot was old that has got a successor since: a manager on a new machine goes on from it.
func TestBackupOfLastNight(t *testing.T) {
	lab, cfg := shelved(t)
	s := open(t, cfg)
	must(t, s, 1, 4)
	s.Tidy(t.Context())
	aged(t, lab.File(used(t, s)), 2*keepSnapshots)
	must(t, s, 5, 6)
	sql := func(statement string) {
		t.Helper()
		if _, err := s.server.Pool().Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	sql(`CREATE TABLE heads_then AS SELECT * FROM heads; CREATE TABLE log_then AS SELECT * FROM log`)
	for n := 7; n <= 10; n++ {
		must(t, s, n, n)
		s.Tidy(t.Context())
	}
	sql(`BEGIN; DELETE FROM log; DELETE FROM heads; INSERT INTO heads SELECT * FROM heads_then; INSERT INTO log SELECT * FROM log_then; COMMIT`)
	holds(t, open(t, elsewhere(t, cfg)), 6)
}

// TestLostSnapshotSparesTheCopy restores the server to a state whose snapshot is not in the bucket. The manager says so and what to do, and leaves this machine's
// copy as it is: it may be the last one.
func TestLostSnapshotSparesTheCopy(t *testing.T) {
	for what, lose := range map[string]func(file string) error{
		"is gone":    os.Remove,
		"is damaged": func(file string) error { return os.Truncate(file, 5) },
	} {
		t.Run(what, func(t *testing.T) {
			lab, cfg := shelved(t)
			s := open(t, cfg)
			must(t, s, 1, 4)
			s.Tidy(t.Context())
			must(t, s, 5, 8)
			gone := used(t, s)
			if _, err := s.server.Pool().Exec(t.Context(), `WITH gone AS (DELETE FROM log WHERE seq > 6) UPDATE heads SET seq = 6, key = (SELECT key FROM log WHERE seq = 6)`); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Close(), lose(lab.File(gone))); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "bring ") {
				t.Errorf("opened: %v", err)
			}
			left, err := badgerledger.Open(cfg.Copy)
			if err != nil {
				t.Fatal(err)
			}
			defer left.Close()
			if n := left.Head().Totals.Chunks; n != 8 {
				t.Errorf("the copy has %d chunks left, want 8", n)
			}
		})
	}
}

// TestNobodyWaitsForOldEntries commits while a snapshot's old entries are removed from the log, which takes long on a large one.
func TestNobodyWaitsForOldEntries(t *testing.T) {
	_, cfg := shelved(t)
	s := open(t, cfg)
	must(t, s, 1, 4)
	tx, err := s.server.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM log WHERE seq = 1 FOR UPDATE`); err != nil { // the removal comes no further
		t.Fatal(err)
	}
	tidied := make(chan struct{})
	go func() {
		defer close(tidied)
		s.Tidy(t.Context())
	}()
	for used(t, s) == "" {
		var removes int
		if err := s.server.Pool().QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE FROM log%'`).Scan(&removes); err != nil {
			t.Fatal(err)
		}
		if removes > 0 && used(t, s) == "" {
			_ = tx.Rollback(t.Context())
			t.Fatal("the snapshot waits for the removal of the entries before it")
		}
		time.Sleep(10 * time.Millisecond)
	}
	must(t, s, 5, 6)
	select {
	case <-tidied:
		t.Error("the entries were removed under a lock")
	default:
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-tidied
	var entries int
	if err := s.server.Pool().QueryRow(t.Context(), `SELECT count(*) FROM log`).Scan(&entries); err != nil || entries != 3 {
		t.Errorf("%d entries in the log, %v; want those from the snapshot on", entries, err)
	}
}
