package pgledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/lab/pglab"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
	"shoal/manager/archive/schema"
)

// step is a write that follows on n-1 and adds one to the totals.
func step(n int) ledger.Write {
	w := ledger.Write{If: ledger.Change{Key: []byte("c")}, Changes: []ledger.Change{{Key: []byte("c"), Value: fmt.Append(nil, n)}},
		Entries: []ledger.Entry{{Feed: schema.Feed, Value: fmt.Append(nil, n)}}, Add: ledger.Totals{Chunks: 1}}
	if n > 1 {
		w.If.Value = fmt.Append(nil, n-1)
	}
	return w
}

func commit(s *Store, w ledger.Write) error {
	refused, err := s.Commit([]ledger.Write{w})
	if err != nil {
		return err
	}
	return refused[0]
}

// must commits steps.
func must(t *testing.T, s *Store, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		if err := commit(s, step(n)); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
	}
}

// holds wants the record to be at a step, made once.
func holds(t *testing.T, s *Store, n int) {
	t.Helper()
	err := s.View(func(snap ledger.Snapshot) error {
		_, err := snap.Get([]byte("c"), func(v []byte) error {
			if string(v) != fmt.Sprint(n) {
				t.Errorf("at step %s, want %d", v, n)
			}
			return nil
		})
		return err
	})
	if err != nil || s.Head().Totals.Chunks != uint64(n) {
		t.Errorf("%d chunks counted, want %d; %v", s.Head().Totals.Chunks, n, err)
	}
}

// elsewhere is the same ledger on another machine.
func elsewhere(t *testing.T, cfg Config) Config {
	cfg.Copy.Dir = filepath.Join(t.TempDir(), "state")
	return cfg
}

// TestLostAnswer loses commits on their way and answers on their way back. Each must be made exactly once.
func TestLostAnswer(t *testing.T) {
	cfg := configOf(t, pglab.Shared(t), "")
	chance := rand.New(rand.NewPCG(1, 2))
	lost := map[string]int{}
	losing := cfg
	losing.Server.Lose = func(stage string) error {
		if chance.IntN(4) > 0 {
			return nil
		}
		lost[stage]++
		return errors.New("lost")
	}
	s := open(t, losing)
	const steps = 60
	for n := 1; n <= steps; n++ {
		err := commit(s, step(n))
		for errors.Is(err, ledger.ErrAway) { // the very first write, which makes this the writer, may be refused
			err = commit(s, step(n))
		}
		if err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
	}
	if lost["commit"] == 0 || lost["answer"] == 0 {
		t.Errorf("lost %v: nothing was tried", lost)
	}
	holds(t, s, steps)
	holds(t, open(t, elsewhere(t, cfg)), steps)
}

// TestKill kills the server while commits are made. Each one that was answered must be there, also for who has no copy.
func TestKill(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	cfg.Server.Patience = time.Minute
	s := open(t, cfg)
	var made atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := commit(s, step(n)); err != nil {
				t.Errorf("step %d: %v", n, err)
				return
			}
			made.Store(int64(n))
		}
	})
	for range 3 {
		before := made.Load()
		for made.Load() < before+20 && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		server.Kill()
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	holds(t, open(t, elsewhere(t, cfg)), int(made.Load()))
}

// TestReplaced has a second machine take the ledger over. The first one, however long it was paused, changes nothing any more; nor does one that
// has not read what another wrote.
func TestReplaced(t *testing.T) {
	cfg := configOf(t, pglab.Shared(t), "")
	one := open(t, cfg)
	must(t, one, 1, 3)
	two, late := open(t, elsewhere(t, cfg)), open(t, elsewhere(t, cfg))
	holds(t, two, 3)
	must(t, one, 4, 4) // who only reads takes nothing over
	if err := commit(two, step(5)); !errors.Is(err, ledger.ErrReplaced) {
		t.Errorf("who has not read the last entry wrote: %v", err)
	}
	if err := commit(one, step(5)); !errors.Is(err, ledger.ErrReplaced) {
		t.Errorf("the former writer wrote: %v", err)
	}
	three := open(t, elsewhere(t, cfg))
	must(t, three, 5, 6)
	for name, s := range map[string]*Store{"one": one, "two": two, "late": late} {
		if err := commit(s, step(7)); !errors.Is(err, ledger.ErrReplaced) {
			t.Errorf("%s wrote: %v", name, err)
		}
	}
	holds(t, one, 4)
	holds(t, open(t, elsewhere(t, cfg)), 6)
}

// TestAway has the server away for longer than a commit waits: nothing was written, and the same commit can be made later.
func TestAway(t *testing.T) {
	server := pglab.Shared(t)
	cfg := configOf(t, server, "")
	cfg.Server.Patience = 50 * time.Millisecond
	s := open(t, cfg)
	must(t, s, 1, 1)
	server.Kill()
	if err := commit(s, step(2)); !errors.Is(err, ledger.ErrAway) {
		t.Errorf("without a server: %v", err)
	}
	holds(t, s, 1)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, s, 2, 3)
	holds(t, s, 3)
}

// TestCopies opens a ledger where the copy of this machine cannot be gone on with: it is made again, and nothing is lost.
func TestCopies(t *testing.T) {
	lab := pglab.Shared(t)
	for name, spoil := range map[string]func(t *testing.T, s *Store, dir string) (want int){
		"damaged": func(t *testing.T, _ *Store, dir string) int {
			if err := os.WriteFile(filepath.Join(dir, "MANIFEST"), []byte("no manifest"), 0o600); err != nil {
				t.Fatal(err)
			}
			return 5
		},
		"of another archive": func(t *testing.T, s *Store, _ string) int {
			if _, err := s.server.Pool().Exec(t.Context(), `UPDATE heads SET archive = 'another8'`); err != nil {
				t.Fatal(err)
			}
			return 5
		},
		"ahead of a server that was restored": func(t *testing.T, s *Store, _ string) int {
			if _, err := s.server.Pool().Exec(t.Context(), `WITH gone AS (DELETE FROM log WHERE seq > 3) UPDATE heads SET seq = 3, key = (SELECT key FROM log WHERE seq = 3)`); err != nil {
				t.Fatal(err)
			}
			return 3
		},
		"of another history": func(t *testing.T, s *Store, _ string) int {
			if _, err := s.server.Pool().Exec(t.Context(), `WITH gone AS (DELETE FROM log WHERE seq = 5) UPDATE heads SET seq = 4, key = (SELECT key FROM log WHERE seq = 4)`); err != nil {
				t.Fatal(err)
			}
			cfg := s.cfg
			other := open(t, elsewhere(t, cfg))
			must(t, other, 5, 5)
			return 5
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := configOf(t, lab, "")
			s := open(t, cfg)
			must(t, s, 1, 5)
			if err := s.copied.Close(); err != nil {
				t.Fatal(err)
			}
			want := spoil(t, s, cfg.Copy.Dir)
			s = open(t, cfg)
			holds(t, s, want)
			must(t, s, want+1, want+2)
		})
	}
}

// TestOwnArchive refuses a folder that holds an archive, and leaves it as it is.
func TestOwnArchive(t *testing.T) {
	cfg := configOf(t, pglab.Shared(t), "")
	was, err := badgerledger.Open(cfg.Copy)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := was.Commit([]ledger.Write{step(1)}); err != nil {
		t.Fatal(err)
	}
	if err := was.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), cfg); !errors.Is(err, ErrOwn) {
		t.Errorf("opened %v, %v", s, err)
	}
	if was, err = badgerledger.Open(cfg.Copy); err != nil || was.Head().Totals.Chunks != 1 {
		t.Errorf("the folder afterwards: %v", err)
	}
	if err := was.Close(); err != nil {
		t.Error(err)
	}
}

// TestAnew begins an empty ledger, keeps the old entries, and shuts the former writer out.
func TestAnew(t *testing.T) {
	cfg := configOf(t, pglab.Shared(t), "")
	one := open(t, cfg)
	must(t, one, 1, 3)
	s, err := Anew(t.Context(), elsewhere(t, cfg))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Head().ID == one.Head().ID || s.Head().Totals.Chunks != 0 {
		t.Errorf("head %+v", s.Head())
	}
	must(t, s, 1, 2)
	if err := commit(one, step(4)); !errors.Is(err, ledger.ErrReplaced) {
		t.Errorf("the former writer wrote: %v", err)
	}
	var kept int
	if err := s.server.Pool().QueryRow(t.Context(), `SELECT count(*) FROM pg_class WHERE relname LIKE 'log_broken_%' AND relkind = 'r' AND relnamespace = $1::regnamespace`, cfg.Server.Schema).Scan(&kept); err != nil || kept != 1 {
		t.Errorf("%d tables of old entries, %v", kept, err)
	}
	holds(t, open(t, elsewhere(t, cfg)), 2)
}

// TestEntry packs writes of every form.
func TestEntry(t *testing.T) {
	p, err := newPacker()
	if err != nil {
		t.Fatal(err)
	}
	writes := []ledger.Write{{}, step(1), step(2), {
		Also:  ledger.Change{Key: []byte("w")},
		Early: []ledger.Change{{Key: []byte("a"), Value: []byte{}}, {Key: []byte("b")}}, Changes: []ledger.Change{{Key: []byte("c"), Value: make([]byte, 300)}},
		Entries: []ledger.Entry{{Feed: 'f', Value: []byte("x")}, {Feed: 'g', Value: []byte("y")}}, Add: ledger.Totals{Pages: 1, Unchanged: 2, Chunks: 3, Bytes: 1 << 40, Events: 5}, Segment: 7, Number: 1 << 50,
	}}
	back, err := p.unpack(p.pack(writes))
	if err != nil || !reflect.DeepEqual(back, writes) {
		t.Errorf("%+v, %v; want %+v", back, err, writes)
	}
	if old, err := decode([]byte{entryV1, 1, 1, 'k', 2, 'v', 0, 0, 0, 0, 0, 0, 0, 0, 0}); err != nil || !reflect.DeepEqual(old, []ledger.Write{{If: ledger.Change{Key: []byte("k"), Value: []byte("v")}}}) {
		t.Errorf("an entry of the first version: %+v, %v", old, err)
	}
}

// FuzzEntry reads foreign bytes as an entry.
func FuzzEntry(f *testing.F) {
	f.Add(encode([]ledger.Write{step(1), step(2)}))
	f.Add([]byte{entryV1, 1, 0, 0, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		writes, err := decode(b)
		if err != nil {
			return
		}
		if again, err := decode(encode(writes)); err != nil || !reflect.DeepEqual(again, writes) {
			t.Errorf("%+v comes back as %+v, %v", writes, again, err)
		}
	})
}
