package postgres

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pglab"
)

// TestFoundByTwo has two managers find a host at the same time that nobody knew: it is counted as one, with the links of both.
func TestFoundByTwo(t *testing.T) {
	server := pglab.Shared(t)
	a, b := oneOf(t, server, "a", time.Minute), oneOf(t, server, "b", time.Minute)
	at := time.Now().UTC().Truncate(time.Microsecond)
	tx, err := a.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), unhurried); err != nil { // the other one may take long to connect
		t.Fatal(err)
	}
	if err := putFound(t.Context(), tx, at, []channel.Found{{URL: "https://new.test/1", From: 1}}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- b.Apply(t.Context(), b.id, channel.Advance{At: at, Found: []channel.Found{{URL: "https://new.test/2", From: 2}, {URL: "https://other.test/", From: 2}}})
	}()
	for waits := 0; waits == 0; time.Sleep(5 * time.Millisecond) {
		if err := a.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO candidates%'`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	list, err := b.Candidates(t.Context(), 10, nil)
	if err != nil || len(list) != 2 || list[0].Host != "https://new.test" || list[0].Links != 2 || len(list[0].Seeds) != 2 || list[0].From != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if n, err := b.CountCandidates(t.Context()); err != nil || n != 2 {
		t.Errorf("%d candidates are counted, %v", n, err)
	}
}
