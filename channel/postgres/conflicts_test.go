package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"shoal/channel"
	"shoal/internal/lab/pglab"
)

// TestConflicts has the server break a write off because of others: as it waits for one that waits for it (SQLSTATE 40P01), and as it has read what has changed
// since (40001). It is tried again, and made once.
func TestConflicts(t *testing.T) {
	server := pglab.Shared(t)
	const raise = `UPDATE counters SET n = n + 1 WHERE name = $1`
	for code, isolation := range map[string]string{codeDeadlock: "read%20committed", codeSerialize: "repeatable%20read"} {
		t.Run(code, func(t *testing.T) {
			db := openAt(t, server.URL()+"&default_transaction_isolation="+isolation, "db")
			other := open(t, server, "db")
			if err := db.write(t.Context(), nil, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `INSERT INTO counters (name, n) VALUES ('one', 0), ('two', 0)`)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			var otherErr error
			tries, broken := 0, 0
			err := db.write(t.Context(), nil, func(ctx context.Context, tx pgx.Tx) error {
				if tries == 1 { // else it may take the first counter again before the other one is awake, and both wait for good: the server looks once
					otherErr = <-done
				}
				if _, err := tx.Exec(ctx, unhurried+`; SET LOCAL deadlock_timeout = '10ms'`); err != nil { // the other one may take long to connect
					return err
				}
				if _, err := tx.Exec(ctx, raise, "one"); err != nil {
					return err
				}
				if tries++; tries == 1 {
					if code == codeDeadlock {
						by := make(chan uint32, 1)
						go func() { done <- crossing(t, other, raise, by) }()
						if err := waits(ctx, other, <-by); err != nil {
							return err
						}
					} else {
						_, err := other.pool.Exec(ctx, raise, "two")
						done <- err
					}
				}
				_, err := tx.Exec(ctx, raise, "two")
				var pg *pgconn.PgError
				if errors.As(err, &pg) && pg.Code == code {
					broken++
				}
				return err
			})
			if err = errors.Join(err, otherErr); err != nil || broken < 1 || tries != broken+1 {
				t.Fatalf("tried %d times, of which %d were broken off: %v", tries, broken, err)
			}
			sums, err := db.Counters(t.Context())
			wantOne := int64(1)
			if code == codeDeadlock {
				wantOne = 2
			}
			if err != nil || sums["one"] != wantOne || sums["two"] != 2 {
				t.Errorf("%v, %v", sums, err)
			}
		})
	}
}

// crossing raises both counters, the second one first, and tells which connection it uses. It waits for others for as long as it takes.
func crossing(t *testing.T, db *DB, raise string, by chan<- uint32) error {
	return pgx.BeginFunc(t.Context(), db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), unhurried+`; SET LOCAL deadlock_timeout = '1h'`); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), raise, "two"); err != nil {
			return err
		}
		by <- tx.Conn().PgConn().PID()
		_, err := tx.Exec(t.Context(), raise, "one")
		return err
	})
}

// waits returns when a connection waits for a lock.
func waits(ctx context.Context, db *DB, pid uint32) error {
	for {
		var n int
		if err := db.pool.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = $1`, int32(pid)).Scan(&n); err != nil || n > 0 {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// TestSerializable has several goroutines issue and apply on a server on which every transaction is serializable, as CockroachDB's are: all is made once.
func TestSerializable(t *testing.T) {
	server := pglab.Shared(t)
	db := openAt(t, server.URL()+"&default_transaction_isolation=serializable", "db")
	e, ids := filled(t, db, 4)
	const writes = 10
	done := make(chan error, len(ids))
	for w, id := range ids {
		go func() {
			feed, at := fmt.Sprint("feed", w), ""
			for i := range writes {
				refused, err := db.Issue(t.Context(), e, []channel.Issue{{ID: id, Gen: channel.Gen(i + 1), Lease: []byte{1}, At: time.Now()}})
				to := fmt.Sprint(i + 1)
				if err == nil && len(refused) == 0 {
					err = db.Apply(t.Context(), e, channel.Advance{Feed: feed, From: at, To: to, Counters: map[string]int64{"all": 1}})
				}
				if err != nil || len(refused) > 0 {
					done <- fmt.Errorf("%v, %w", refused, err)
					return
				}
				at = to
			}
			done <- nil
		}()
	}
	for range ids {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if sums, err := db.Counters(t.Context()); err != nil || sums["all"] != writes*int64(len(ids)) {
		t.Errorf("%v, %v; want %d", sums, err, writes*len(ids))
	}
}
