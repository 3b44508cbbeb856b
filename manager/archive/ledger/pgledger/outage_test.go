package pgledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/internal/lab/pglab"
	"shoal/manager/archive/ledger"
)

func do(t *testing.T, s *Store, sql string) {
	t.Helper()
	if _, err := s.server.Pool().Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// TestOutageShutsNoneOut has a server that was away for longer than writers may be silent: neither the first one that is back, nor one that has just been
// started, shuts the others out.
func TestOutageShutsNoneOut(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	a, b := open(t, beside(t, cfg, "a")), open(t, beside(t, cfg, "b"))
	do(t, a, `UPDATE writers SET at = now() - interval '1 hour', since = now() - interval '2 hours'`)
	if n, err := a.Behind(t.Context(), []byte("wait")); err != nil || n != 1 {
		t.Errorf("%d others are waited for, %v; want the one that comes back", n, err)
	}
	if is, err := a.Writes(t.Context(), "b"); err != nil || !is {
		t.Errorf("the other one may write: %v, %v", is, err)
	}
	do(t, a, `UPDATE writers SET at = now() - interval '1 hour', since = now() - interval '2 hours'`)
	c := open(t, beside(t, cfg, "c"))
	must(t, b, 1, 1)
	must(t, a, 2, 2)
	must(t, c, 3, 3)
	for _, s := range []*Store{a, b, c} {
		if err := s.Out(); err != nil {
			t.Error(err)
		}
	}
}

// TestSilentIsShutOut has a writer be silent while another one is heard of all the time: that one shuts it out. It learns that without writing anything.
func TestSilentIsShutOut(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	a, b := open(t, beside(t, cfg, "a")), open(t, beside(t, cfg, "b"))
	for is, err := true, error(nil); is; is, err = a.Writes(t.Context(), "b") {
		if err != nil {
			t.Fatal(err)
		}
		do(t, a, `UPDATE writers SET at = CASE token WHEN 'a' THEN now() ELSE now() - interval '1 hour' END, since = now() - interval '2 hours'`)
	}
	if n, err := a.Behind(t.Context(), []byte("wait")); err != nil || n != 0 {
		t.Errorf("%d others are waited for, %v; want none", n, err)
	}
	for b.Out() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if err := b.Out(); !errors.Is(err, ledger.ErrReplaced) {
		t.Errorf("who was shut out: %v, want %v", err, ledger.ErrReplaced)
	}
	if err := a.Out(); err != nil {
		t.Errorf("who has shut it out: %v", err)
	}
}

// TestClockWentBack has the server's clock go back by an hour, as with a standby that takes over: no writer shuts another one out at once, and one that is heard of
// no more is shut out as ever.
func TestClockWentBack(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	a, b := open(t, beside(t, cfg, "a")), open(t, beside(t, cfg, "b"))
	do(t, a, `UPDATE writers SET at = now() + interval '1 hour', since = now() - interval '1 day'`)
	if is, err := a.Writes(t.Context(), "b"); err != nil || !is {
		t.Errorf("the other one may write: %v, %v", is, err)
	}
	for steady := false; !steady; {
		if err := a.server.Pool().QueryRow(t.Context(), `SELECT min(since) > now() - interval '1 hour' AND max(at) <= now() FROM writers`).Scan(&steady); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for is, err := true, error(nil); is; is, err = a.Writes(t.Context(), "b") {
		if err != nil {
			t.Fatal(err)
		}
		do(t, a, `UPDATE writers SET at = CASE token WHEN 'a' THEN now() ELSE now() + interval '1 hour' END, since = now() - interval '2 hours'`)
	}
	for b.Out() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// TestWaitingLocksNothing has somebody hold the lock of the log while a writer asks again and again whether another one is ready.
func TestWaitingLocksNothing(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	a, b := open(t, beside(t, cfg, "a")), open(t, beside(t, cfg, "b"))
	err := pgx.BeginFunc(t.Context(), b.server.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil { // a may take long to connect
			return err
		}
		if err := lockHead(t.Context(), tx); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if n, err := a.Behind(ctx, []byte("wait")); err != nil || n != 1 {
			t.Errorf("%d others are waited for, %v; want 1", n, err)
		}
		is, err := a.Writes(ctx, "b")
		if !is {
			t.Errorf("the other one may not write, %v", err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Pass(t.Context(), []byte("wait")); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Behind(t.Context(), []byte("wait")); err != nil || n != 0 {
		t.Errorf("%d others are waited for when all have answered, %v", n, err)
	}
}

// TestServerGoesBetween has the server go away when an entry is in the log, and before what came before it was read. The commit waits until it is back; one
// whose store is closed waits no longer.
func TestServerGoesBetween(t *testing.T) {
	server := pglab.Shared(t)
	for name, comes := range map[string]bool{"and come back": true, "and stay away": false} {
		t.Run(name, func(t *testing.T) {
			cfg := configOf(t, server, "")
			dying := beside(t, cfg, "a")
			dying.Server.Patience = 50 * time.Millisecond
			dies := false // guarded by the lock that the test holds
			dying.Server.Lose = func(stage string) error {
				if dies && stage == "answer" {
					dies = false
					server.Kill()
				}
				return nil
			}
			a, b := open(t, dying), open(t, beside(t, cfg, "b"))
			a.writing.Lock() // it does not read what follows before it must
			must(t, b, 1, 1)
			dies = true
			done := make(chan error, 1)
			go func() {
				refused, err := a.commitBeside(context.Background(), []ledger.Write{step(2)})
				if err == nil {
					err = refused[0]
				}
				done <- err
			}()
			select {
			case err := <-done:
				t.Errorf("while the server was away: %v", err)
				done <- err
			case <-time.After(20 * dying.Server.Patience):
			}
			if !comes {
				a.End()
				if err := <-done; err == nil {
					t.Error("it was answered without a server")
				}
			}
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if comes {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			a.writing.Unlock()
			if err := b.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			holds(t, b, 2)
		})
	}
}

// TestSerialization has two writers on a server that refuses a transaction of which it is not sure that it could have come after the others (SQLSTATE 40001).
// Each commit is tried again, and made once.
func TestSerialization(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	cfg.Server.URL += "&default_transaction_isolation=serializable"
	a := open(t, beside(t, cfg, "a"))
	refusedOnce := func(run func() error) {
		t.Helper()
		done := make(chan error, 1)
		err := pgx.BeginFunc(t.Context(), a.server.Pool(), func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `UPDATE heads SET looked = now()`); err != nil {
				return err
			}
			go func() { done <- run() }()
			for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) { // it has its snapshot, which is about to be old
				err := a.server.Pool().QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.datname = current_database()`).Scan(&waiting)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	refusedOnce(func() error { return commit(a, step(1)) })
	refusedOnce(func() error { _, err := a.NextSegment(); return err })
	refusedOnce(func() error { return a.ShutOut(t.Context(), []string{"nobody"}) })
	holds(t, a, 1)
}

// TestNewest tells up to which ID nobody adds to a segment: each writer has those that were given since it began.
func TestNewest(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	a := open(t, beside(t, cfg, "a"))
	for range 2 {
		if _, err := a.NextSegment(); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, beside(t, cfg, "b"))
	want := func(what string, want uint32) {
		t.Helper()
		if got, err := b.Newest(t.Context()); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", what, got, err, want)
		}
	}
	want("beside one that has two", 0)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	want("when that has ended", 2)
}

// TestEndWithoutServer ends a store whose server is away while a commit waits for it: the commit is refused, as one of which nothing was written, and not waited for
// as long as the store is patient.
func TestEndWithoutServer(t *testing.T) {
	for name, writer := range map[string]string{"alone": "", "beside others": "a"} {
		t.Run(name, func(t *testing.T) {
			server := pglab.Start(t, pglab.Options{})
			cfg := configOf(t, server, "")
			if writer != "" {
				cfg = beside(t, cfg, writer)
			}
			cfg.Server.Patience = time.Hour
			s := open(t, cfg)
			must(t, s, 1, 1)
			server.Kill()
			done := make(chan error, 1)
			go func() { done <- commit(s, step(2)) }()
			for len(s.writing) == 0 {
				time.Sleep(time.Millisecond)
			}
			s.End()
			if err := <-done; !errors.Is(err, ledger.ErrAway) {
				t.Errorf("the commit that waited: %v", err)
			}
			if err := server.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
