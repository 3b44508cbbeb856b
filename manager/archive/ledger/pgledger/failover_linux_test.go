package pgledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"shoal/internal/lab/pglab"
)

// failing is a server with a standby, and the configuration of a store that finds either.
func failing(t *testing.T) (a, b *pglab.Server, cfg Config) {
	a = pglab.Start(t, pglab.Options{})
	b = pglab.StartStandby(t, a, pglab.Options{})
	cfg = configOf(t, a, "")
	cfg.Server.URL = "postgres://shoal@" + pglab.StartProxy(t, a.Socket()).Addr() + "," + pglab.StartProxy(t, b.Socket()).Addr() + "/postgres?pool_max_conns=4&target_session_attrs=read-write"
	return a, b, cfg
}

// waits returns when a commit waits for the standby at a server.
func waits(t *testing.T, s *pglab.Server) {
	t.Helper()
	for {
		n, err := s.Ask(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		if err != nil {
			t.Fatal(err)
		}
		if n != "0" {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestCanceledCommit cancels a commit that waits for a standby. The server reports success with a warning; the store asks by a write, which waits too, and is
// only answered when the standby has both.
func TestCanceledCommit(t *testing.T) {
	a, b, cfg := failing(t)
	s := open(t, cfg)
	must(t, s, 1, 1)
	b.Pause()
	done := make(chan error, 1)
	go func() { done <- commit(s, step(2)) }()
	waits(t, a)
	if _, err := a.Ask(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"); err != nil {
		t.Fatal(err)
	}
	waits(t, a) // the write that asks
	select {
	case err := <-done:
		t.Errorf("a commit that no standby has was answered: %v", err)
	default:
	}
	b.Resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	a.Kill()
	if err := b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	holds(t, open(t, elsewhere(t, cfg)), 2)
}

// TestOtherHistory has a writer go on at a server that has another entry where it has read one, as after a failover has lost that. It stores nothing more, and
// its copy is made anew at the next start.
func TestOtherHistory(t *testing.T) {
	server := pglab.Shared(t)
	cfg := beside(t, configOf(t, server, ""), "reader")
	late := open(t, cfg)
	must(t, late, 1, 2)
	if _, err := server.Ask(t.Context(), "SET search_path = "+cfg.Server.Schema+"; UPDATE log SET key = decode('00112233445566778899aabbccddeeff', 'hex') WHERE seq = 2; UPDATE heads SET key = (SELECT key FROM log WHERE seq = 2)"); err != nil {
		t.Fatal(err)
	}
	if err := late.Sync(t.Context()); !errors.Is(err, errDiverged) {
		t.Errorf("it reads on: %v", err)
	}
	if err := commit(late, step(3)); !errors.Is(err, errDiverged) {
		t.Errorf("it stores on: %v", err)
	}
	if err := late.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, cfg)
	must(t, again, 3, 3)
	holds(t, again, 3)
}

// TestFeedTellsWhatCannotBeLost has a writer cut off while its commit waits for the standby: others read the entry, which a failover loses. A feed does not tell
// it before the standby has it, so that no cursor goes beyond what is left.
func TestFeedTellsWhatCannotBeLost(t *testing.T) {
	a, b, cfg := failing(t)
	writer, reader := open(t, beside(t, cfg, "writer")), open(t, beside(t, cfg, "reader"))
	must(t, writer, 1, 1)
	seen := func() uint64 {
		t.Helper()
		if err := reader.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		return reader.copied.Next()
	}
	first := seen()
	if got := reader.Settled(t.Context()); got != first {
		t.Errorf("settled before %d, read before %d", got, first)
	}
	b.Pause()
	done := make(chan error, 1)
	go func() { done <- commit(writer, step(2)) }()
	for cut := ""; cut == ""; time.Sleep(5 * time.Millisecond) { // what says that a writer is alive may wait before the commit does
		var err error
		if cut, err = a.Ask(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query ILIKE '%commit%'"); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); seen() == first; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the reader does not see the commit that was cut off: the test tests nothing")
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got := reader.Settled(short); got != first {
		t.Errorf("settled before %d while the standby has only what is before %d", got, first)
	}
	b.Resume()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	last := seen()
	if got := reader.Settled(t.Context()); got != last || last <= first {
		t.Errorf("settled before %d, want %d, above %d", got, last, first)
	}
	a.Kill()
	if err := b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := open(t, elsewhere(t, cfg)).copied.Next(); got < last {
		t.Errorf("after the failover the feed goes to %d, and %d was told", got, last)
	}
}
