package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel"
	"shoal/internal/lab/pglab"
)

// TestStoppedInTheMiddle has a manager stop inside of a write, as one that is suspended or cut off from the server does. It holds up what others write for as long
// as the server waits for it, and no longer; they end its tenancy and take its partitions. The write is refused when it goes on.
func TestStoppedInTheMiddle(t *testing.T) {
	server := pglab.Shared(t)
	old := oneOf(t, server, "old", time.Second)
	if _, err := old.TakeParts(t.Context(), allParts()); err != nil {
		t.Fatal(err)
	}
	id := addOne(t, old, "http://a.example")
	if _, err := old.Beat(t.Context(), false, nil); err != nil { // its last; before its first, a manager has a minute
		t.Fatal(err)
	}
	next := oneOf(t, server, "next", time.Second)
	within, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stopped, wakes, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	wake := sync.OnceFunc(func() { close(wakes) })
	t.Cleanup(wake)
	go func() {
		tries := 0
		ended <- old.write(within, &old.id, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE hot SET gen = gen + 1 WHERE id = $1`, int64(id))
			if tries++; tries == 1 {
				close(stopped)
				<-wakes
			}
			return err
		})
	}()
	<-stopped
	for { // the beats of a manager that lives
		now, err := next.Beat(within, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(now.Tenants) == 1 {
			break
		}
		select {
		case <-within.Done():
			t.Fatal("a manager that had stopped kept its partitions")
		case <-time.After(50 * time.Millisecond):
		}
	}
	taken, err := next.TakeParts(within, allParts())
	if err != nil || len(taken.Parts) != channel.Parts {
		t.Errorf("took %d partitions, %v", len(taken.Parts), err)
	}
	if refused, err := next.Issue(within, next.id, []channel.Issue{{ID: id, Gen: 5, At: time.Now()}}); err != nil || len(refused) > 0 {
		t.Errorf("issued: %v, %v", refused, err)
	}
	wake()
	if err := <-ended; !errors.Is(err, channel.ErrStaleEpoch) {
		t.Errorf("the write that was held up: %v", err)
	}
}

// hurried opens a database whose server waits half a second for this program from now on. Making the schema may take a busy machine longer between two statements.
func hurried(t *testing.T, cfg Config) *DB {
	t.Helper()
	db, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.cfg.Abandon = 500 * time.Millisecond
	db.pool.Reset() // connections of the time before
	return db
}

// TestHeldUpWrite has a write stop for longer than the server waits, by a manager that still has the database: it is tried again, and made once.
func TestHeldUpWrite(t *testing.T) {
	server := pglab.Shared(t)
	name := strings.TrimPrefix(strings.Split(server.URL(), "?")[0], "postgres://shoal@")
	cfg := Default("postgres://shoal@" + pglab.StartProxy(t, server.Socket()).Addr() + name + "?sslmode=disable") // over TCP the server's last words arrive
	cfg.Schema = schemaOf(t, "")
	db := hurried(t, cfg)
	other := open(t, server, "")
	tries := 0
	if err := db.write(t.Context(), nil, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO counters (name, n) VALUES ('one', 1)`)
		if tries++; tries > 1 || err != nil {
			return err
		}
		for there := true; there && err == nil; time.Sleep(10 * time.Millisecond) { // until the server has ended it
			err = other.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, int64(tx.Conn().PgConn().PID())).Scan(&there)
		}
		return err
	}); err != nil || tries < 2 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	var n int
	if err := db.pool.QueryRow(t.Context(), `SELECT n FROM counters WHERE name = 'one'`).Scan(&n); err != nil || n != 1 {
		t.Errorf("written %d, %v", n, err)
	}
}

// TestSlowCopy fills a database from a slow disk, and reads it to one: the server waits for as long as that takes.
func TestSlowCopy(t *testing.T) {
	server := pglab.Shared(t)
	cfg := Default(server.URL())
	cfg.Schema = schemaOf(t, "")
	db := hurried(t, cfg)
	slow := func() { time.Sleep(2 * db.cfg.Abandon) }
	if err := db.Load(t.Context(), func(yield func(channel.Item, error) bool) {
		slow()
		_ = yield(channel.Item{Counter: &channel.Counter{Name: "one", N: 1}}, nil) && yield(channel.Item{Next: 7}, nil)
	}); err != nil {
		t.Fatal(err)
	}
	items := 0
	if err := db.Dump(t.Context(), func(channel.Item) error {
		slow()
		items++
		return nil
	}); err != nil || items != 2 {
		t.Errorf("%d items, %v", items, err)
	}
}
