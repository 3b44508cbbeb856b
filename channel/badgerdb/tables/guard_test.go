package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	bopt "github.com/dgraph-io/badger/v4/options"
)

// small returns options with which a database compacts soon.
func small(dir string) badger.Options {
	o := options(dir).WithSyncWrites(false).WithMemTableSize(64 << 10).WithNumMemtables(2).WithNumCompactors(2).WithNumLevelZeroTables(4).WithNumLevelZeroTablesStall(8).
		WithBaseTableSize(1 << 20). // so few tables that no compaction waits for itself (decision 0017)
		WithDetectConflicts(false).WithBlockCacheSize(0).WithChecksumVerificationMode(bopt.OnBlockRead)
	o.TableSizeMultiplier, o.Compression = 1, 0
	return o
}

const perCommit = 50

func keyOf(n, i int) []byte { return fmt.Appendf(nil, "%03d-%06d", i, n) } // of all commits in every table

// fill commits until enough returns true, and returns the number of the next commit.
func fill(t *testing.T, db *badger.DB, n int, enough func() bool) int {
	t.Helper()
	for end := time.Now().Add(time.Minute); !enough(); n++ {
		if time.Now().After(end) {
			t.Fatal("it does not come to that")
		}
		err := db.Update(func(txn *badger.Txn) error {
			for i := range perCommit {
				if err := txn.Set(keyOf(n, i), bytes.Repeat([]byte{byte(n)}, 40+40*(i%2))); err != nil { // every other one in the value log
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// flip changes a byte in the middle of a file's first block, or changes it back.
func flip(t *testing.T, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

func atLevel0(db *badger.DB) (n int) {
	for _, t := range db.Tables() {
		if t.Level == 0 {
			n++
		}
	}
	return n
}

// count returns how many keys of the first n commits exist.
func count(t *testing.T, db *badger.DB, n int) (found int) {
	t.Helper()
	err := db.View(func(txn *badger.Txn) error {
		for n := range n {
			for i := range perCommit {
				switch _, err := txn.Get(keyOf(n, i)); {
				case err == nil:
					found++
				case !errors.Is(err, badger.ErrKeyNotFound):
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestGuard changes a byte of a table before it is compacted. The compaction must not happen, and once the byte is
// back everything must be there. Without the guard the table's other keys would be gone too.
func TestGuard(t *testing.T) {
	dir := t.TempDir()
	o := small(dir)
	found := make(chan error, 1000)
	var g *Guarded
	g = Guard(o, func(err error) {
		g.Release()
		found <- err
	})
	db, err := badger.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	// Compactions of undamaged tables go on.
	compacted := func() bool {
		for _, t := range db.Tables() {
			if t.Level > 0 {
				return true
			}
		}
		return false
	}
	n := fill(t, db, 0, compacted)
	if len(found) > 0 {
		t.Fatal(<-found)
	}
	if err := CheckOpen(t.Context(), db, 0); err != nil {
		t.Fatal(err)
	}
	// The next compaction reads all tables of level 0.
	fresh := func() string {
		for _, t := range db.Tables() {
			if t.Level == 0 {
				return tableFile(dir, t.ID)
			}
		}
		return ""
	}
	name := ""
	for name == "" { // of which no compaction runs: that would keep its tables until it ends, and has read this one already
		for atLevel0(db) >= o.NumLevelZeroTables {
			time.Sleep(time.Millisecond)
		}
		n = fill(t, db, n, func() bool { name = fresh(); return name != "" })
		if atLevel0(db) >= o.NumLevelZeroTables {
			name = ""
		}
	}
	flip(t, name, 500)
	// Write no more than that: further writes would wait for a compaction that does not come.
	n = fill(t, db, n, func() bool { return len(found) > 0 || atLevel0(db) >= o.NumLevelZeroTables })
	select {
	case err := <-found:
		if !errors.Is(err, ErrChanged) {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the table was not compacted")
	}
	if err := CheckOpen(t.Context(), db, 0); !errors.Is(err, ErrChanged) {
		t.Fatalf("the look at what is open: %v", err)
	}
	g.Release()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	g.End()
	if err := Check(o); !errors.Is(err, ErrChanged) {
		t.Fatalf("before it is opened again: %v", err)
	}
	flip(t, name, 500)
	if err := CheckFolder(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	g = Guard(o, func(err error) { t.Error(err) })
	defer g.End()
	if db, err = badger.Open(o); err != nil {
		t.Fatal(err)
	}
	defer func() {
		g.Release()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if got := count(t, db, n); got != n*perCommit {
		t.Errorf("%d of %d keys are there", got, n*perCommit)
	}
	fill(t, db, n, func() bool { _, err := os.Stat(name); return err != nil }) // compactions go on
}

// TestValues changes a byte in a finished file of the value log.
func TestValues(t *testing.T) {
	dir := t.TempDir()
	o := small(dir).WithValueLogFileSize(1 << 20)
	db, err := badger.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var names []string
	fill(t, db, 0, func() bool {
		names, err = filepath.Glob(filepath.Join(dir, "*.vlog"))
		return err != nil || len(names) > 2
	})
	if err := CheckOpen(t.Context(), db, 0); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{logHeader + 1, 1000, 500_000} {
		flip(t, names[0], at)
		if err := CheckOpen(t.Context(), db, 0); !errors.Is(err, ErrChanged) {
			t.Errorf("at %d: %v", at, err)
		}
		flip(t, names[0], at)
	}
	// A waiting read ends with its context.
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- CheckOpen(ctx, db, 1) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
