package pgledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/lab/pglab"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// records are all records of a store, but for its position.
func records(t *testing.T, s *Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := s.View(func(snap ledger.Snapshot) error {
		return snap.Scan(nil, nil, true, func(key, value []byte) (bool, error) {
			if key[0] != schema.State {
				out[string(key)] = string(value)
			}
			return true, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// beside gives the configuration of one of several writers.
func beside(t *testing.T, cfg Config, name string) Config {
	cfg = elsewhere(t, cfg)
	cfg.Writer = name
	return cfg
}

// TestSeveralWriters has three writers race for the steps of one record, each told by conflicts what the others did. Every step is made once, in the
// order of all, and all copies come out alike.
func TestSeveralWriters(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	const steps = 60
	stores := make([]*Store, 3)
	for i := range stores {
		stores[i] = open(t, beside(t, cfg, fmt.Sprint("writer", i)))
	}
	var mu sync.Mutex
	made := map[int]int{}
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() {
			for n := 1; n <= steps; {
				err := commit(s, step(n))
				switch {
				case err == nil:
					mu.Lock()
					made[n]++
					mu.Unlock()
					n++
				case errors.Is(err, ledger.ErrConflict):
					n++ // another one was quicker, and the next step follows on its
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for n := 1; n <= steps; n++ {
		if made[n] != 1 {
			t.Errorf("step %d was made %d times", n, made[n])
		}
	}
	for _, s := range stores {
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		holds(t, s, steps)
	}
	a, b := records(t, stores[0]), records(t, stores[1])
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("the copies differ:\n%q\n%q", a, b)
	}
}

// TestShutOut takes a writer's work over. Whatever that one still sends changes nothing, and the other one has all that came before.
func TestShutOut(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	old, next := open(t, beside(t, cfg, "old")), open(t, beside(t, cfg, "next"))
	must(t, old, 1, 3)
	if err := next.ShutOut(t.Context(), []string{"old"}); err != nil {
		t.Fatal(err)
	}
	holds(t, next, 3)
	if err := commit(old, step(4)); !errors.Is(err, ledger.ErrReplaced) {
		t.Errorf("who was shut out: %v, want %v", err, ledger.ErrReplaced)
	}
	must(t, next, 4, 5)
	if err := old.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	holds(t, old, 5)
}

// TestLostAnswersOfSeveral loses commits and answers of two writers: each step is made once.
func TestLostAnswersOfSeveral(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	first := beside(t, cfg, "first")
	var losing atomic.Bool
	rng := rand.New(rand.NewPCG(1, 2)) // of the one goroutine that commits
	first.Server.Lose = func(stage string) error {
		if losing.Load() && rng.IntN(4) == 0 {
			return errors.New("lost at the " + stage)
		}
		return nil
	}
	a, b := open(t, first), open(t, beside(t, cfg, "second"))
	losing.Store(true)
	for n := 1; n <= 20; n += 2 {
		must(t, a, n, n)
		must(t, b, n+1, n+1)
	}
	if err := a.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	holds(t, a, 20)
}

// TestAloneAmongSeveral refuses a program that wants the log for itself while others work on it, and lets it in when they have ended.
func TestAloneAmongSeveral(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	one := open(t, beside(t, cfg, "one"))
	must(t, one, 1, 2)
	alone := open(t, elsewhere(t, cfg))
	if err := commit(alone, step(3)); !errors.Is(err, ledger.ErrReplaced) || !errors.Is(err, ErrSeveral) {
		t.Errorf("beside another: %v, want %v", err, ErrSeveral)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	alone = open(t, elsewhere(t, cfg))
	must(t, alone, 3, 3)

	again := open(t, beside(t, cfg, "again")) // shuts the other one out
	must(t, again, 4, 4)
	if err := commit(alone, step(5)); !errors.Is(err, ledger.ErrReplaced) {
		t.Errorf("who had it alone: %v, want %v", err, ledger.ErrReplaced)
	}
}

// TestSlowWriter has a writer wait for its disk, or for a commit, for longer than others are patient: they hear of it all the same.
func TestSlowWriter(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	slow, other := open(t, beside(t, cfg, "slow")), open(t, beside(t, cfg, "other"))
	slow.writing.Lock()
	defer slow.writing.Unlock()
	if _, err := other.server.Pool().Exec(t.Context(), `UPDATE writers SET at = now() - interval '1 hour' WHERE token = 'slow'`); err != nil {
		t.Fatal(err)
	}
	for fresh := false; !fresh; time.Sleep(lookEvery) {
		err := other.server.Pool().QueryRow(t.Context(), `SELECT at > now() - interval '1 minute' FROM writers WHERE token = 'slow'`).Scan(&fresh)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestSyncEnds has somebody who waits for what others have stored give up while a commit is under way.
func TestSyncEnds(t *testing.T) {
	s := open(t, beside(t, configOf(t, pglab.Shared(t), ""), "a"))
	s.writing.Lock()
	defer s.writing.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Sync(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up: %v", err)
	}
}

// TestHear tells what others have written, and not what this one has.
func TestHear(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	a, b := open(t, beside(t, cfg, "a")), open(t, beside(t, cfg, "b"))
	told := make(chan int, 10)
	b.Hear(func(w []ledger.Write) { told <- len(w) })
	must(t, a, 1, 1)
	select {
	case n := <-told:
		if n != 1 {
			t.Errorf("%d writes were told, want 1", n)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing was told")
	}
	must(t, b, 2, 2)
	if len(told) != 0 {
		t.Error("it was told of its own write")
	}
	ids := map[uint32]bool{}
	for _, s := range []*Store{a, b, a, b} {
		id, err := s.NextSegment()
		if err != nil || ids[id] {
			t.Fatalf("segment %d: given twice, or %v", id, err)
		}
		ids[id] = true
	}
}

// TestSilentServer has the server fall silent while a writer reads what others have appended: a commit that comes then is refused in time, as one of which
// nothing was written, and not only when the connection breaks.
func TestSilentServer(t *testing.T) {
	server := pglab.Start(t, pglab.Options{})
	cfg := beside(t, configOf(t, server, ""), "a")
	cfg.Server.Patience = time.Second
	s := open(t, cfg)
	if err := commit(s, step(1)); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	defer server.Resume()
	for { // the writer that follows holds its lock, and waits for the server
		if len(s.writing) > 0 {
			time.Sleep(2 * lookEvery)
			if len(s.writing) > 0 {
				break
			}
		}
		time.Sleep(time.Millisecond)
	}
	if err := commit(s, step(2)); !errors.Is(err, ledger.ErrAway) {
		t.Errorf("a commit to a silent server: %v", err)
	}
	server.Resume()
	for err := ledger.ErrAway; errors.Is(err, ledger.ErrAway); {
		err = commit(s, step(2))
		if err != nil && !errors.Is(err, ledger.ErrAway) {
			t.Fatal(err)
		}
	}
}
