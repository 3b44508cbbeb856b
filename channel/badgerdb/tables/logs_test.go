package tables

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
)

func options(dir string) badger.Options {
	o := badger.DefaultOptions(dir).WithLogger(nil).WithSyncWrites(true).WithMemTableSize(1 << 20).WithValueThreshold(64).WithValueLogFileSize(1 << 20)
	o.MetricsEnabled = false
	return o
}

// killed returns a folder as a killed process leaves it after some commits of three keys each, one of them with its
// value in the value log.
func killed(t *testing.T, commits int) string {
	t.Helper()
	from, to := t.TempDir(), t.TempDir()
	db, err := badger.Open(options(from))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // of the copy it is that the test is about
	for n := range commits {
		err := db.Update(func(txn *badger.Txn) error {
			return errors.Join(txn.Set(fmt.Appendf(nil, "a%04d", n), []byte("small")), txn.Set(fmt.Appendf(nil, "b%04d", n), bytes.Repeat([]byte("large"), 100)),
				txn.Set(fmt.Appendf(nil, "c%04d", n), []byte("small too")))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(from, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if filepath.Base(name) == "LOCK" {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// A process that is killed while it makes or deletes a log leaves a file without a byte, which Badger does not open.
func TestLogsWithoutAByte(t *testing.T) {
	dir := killed(t, 3)
	full, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(full) != 1 || os.Rename(full[0], filepath.Join(dir, "00005.mem")) != nil {
		t.Fatal(full, err)
	}
	for _, name := range []string{"00002.mem", "00004.mem", "00007.mem", "000007.vlog"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Check(options(dir)); err != nil {
		t.Fatal(err)
	}
	db, err := badger.Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // it was only read
	if err := db.View(func(txn *badger.Txn) error { _, err := txn.Get([]byte("b0002")); return err }); err != nil {
		t.Error(err)
	}
}

// TestLogs changes logs in the middle, which must be found, and at the end, as a crash may leave them.
func TestLogs(t *testing.T) {
	const commits = 40
	dir := killed(t, commits)
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		whole, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		end := len(bytes.TrimRight(whole, "\x00"))
		flip := func(b []byte) {
			for i := range b {
				b[i] ^= 0x5a
			}
		}
		zero := func(b []byte) { clear(b) }
		for _, c := range []struct {
			what     string
			from, to int
			change   func([]byte)
			damaged  bool
		}{
			{"nothing", 0, 0, flip, false},
			{"a byte in the middle", end / 2, end/2 + 1, flip, true},
			{"its first entry", logHeader, logHeader + 10, flip, true},
			{"zeros in the middle", end / 3, end/3 + 512, zero, true},
			{"the last byte", end - 1, end, flip, false},
			{"the last commit", end - (end-logHeader)/commits, end, zero, false},
			{"the beginning of the last commit", end - (end-logHeader)/commits, end - (end-logHeader)/commits/2, zero, false},
			{"all of it", logHeader, end, zero, false},
		} {
			b := bytes.Clone(whole)
			c.change(b[c.from:c.to])
			if err := os.WriteFile(names[0], b, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := Check(options(dir)); errors.Is(err, ErrChanged) != c.damaged || err != nil && !c.damaged {
				t.Errorf("%s of %s changed: %v", c.what, pattern, err)
			}
		}
		if err := os.Truncate(names[0], int64(end-3)); err != nil {
			t.Fatal(err)
		}
		if err := Check(options(dir)); err != nil {
			t.Errorf("%s cut: %v", pattern, err)
		}
		if err := os.WriteFile(names[0], whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzEntry(f *testing.F) {
	f.Add([]byte("\x00\x00\x08\x00\x00\xff\xff\xff\xff\xff\xff\xff\xfe\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e entry
		if e.parse(raw) && (e.size < 5 || e.size > int64(len(raw))) {
			t.Errorf("an entry of %d bytes in %d", e.size, len(raw))
		}
		younger(raw, 1)
	})
}

// A file of the value log that is not the last one was full once. Without a byte it is damage, which Badger must be left to find.
func TestOldLogWithoutAByte(t *testing.T) {
	dir := killed(t, 3)
	first, next := filepath.Join(dir, "000001.vlog"), filepath.Join(dir, "000002.vlog")
	if err := errors.Join(os.Rename(first, next), os.WriteFile(first, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	err := Check(options(dir))
	if _, there := os.Stat(first); there != nil {
		t.Errorf("what is left of it was removed: %v, %v", err, there)
	}
}

// TestLogsInAFolderOfAnyName: logs are found in a folder whose name has characters that mean something in patterns.
func TestLogsInAFolderOfAnyName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[bc]")
	if err := os.Rename(killed(t, 3), dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "00009.mem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(options(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "00009.mem")); err == nil {
		t.Error("a log without a byte, with which Badger does not open the folder, is there yet")
	}
	if full, err := find(dir, "*.mem"); err != nil || len(full) == 0 {
		t.Errorf("its logs are %v, %v", full, err)
	}
}

// TestLogsAreWrittenAgain looks at the times of what Badger reads when it opens a folder: a check of a folder that is to be opened has written it again, and one of a folder that is only looked at has not.
func TestLogsAreWrittenAgain(t *testing.T) {
	dir := killed(t, 3)
	for what, check := range map[string]func() error{
		"opened": func() error { return Check(options(dir)) },
		"looked": func() error { return CheckFolder(t.Context(), options(dir)) },
	} {
		long := time.Now().Add(-time.Hour)
		names, err := openLogs(dir)
		if err != nil || len(names) != 2 {
			t.Fatal(names, err)
		}
		names = append(names, filepath.Join(dir, badger.ManifestFilename))
		was := map[string][]byte{}
		for _, name := range names {
			if was[name], err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(name, long, long); err != nil {
				t.Fatal(err)
			}
		}
		if err := check(); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if again := info.ModTime().Sub(long) > time.Minute; again != (what == "opened") {
				t.Errorf("%s: %s is written again: %v", what, filepath.Base(name), again)
			}
			if b, err := os.ReadFile(name); err != nil || !bytes.Equal(b, was[name]) {
				t.Errorf("%s: %s is another one: %v", what, filepath.Base(name), err)
			}
		}
	}
}
