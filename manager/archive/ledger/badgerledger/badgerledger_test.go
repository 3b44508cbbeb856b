package badgerledger

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/ledgertest"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestContract(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Subject {
		dir := t.TempDir()
		s := open(t, dir)
		return ledgertest.Subject{
			Store: s,
			Reopen: func(t *testing.T) ledger.Store {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = open(t, dir)
				return s
			},
			Crash: func(t *testing.T) ledger.Store {
				dir = copyDir(t, dir) // as it is on the disk now, as after kill -9
				s = open(t, dir)
				return s
			},
		}
	})
}

// copyDir copies the files of a folder as they are at one moment. The database may flush a table while the copy is made, which then is of no moment at
// all: it is made again until nothing moved.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	const tries = 100
	for range tries {
		before := listing(t, from)
		to := t.TempDir()
		var failed error
		for name := range before {
			if failed = copySparse(filepath.Join(from, name), filepath.Join(to, name)); failed != nil {
				break
			}
		}
		if after := listing(t, from); maps.Equal(before, after) {
			if failed != nil {
				t.Fatal(failed)
			}
			return to
		}
	}
	t.Fatalf("%s never stood still in %d tries", from, tries)
	return ""
}

// stamp is how one sees that a file was written to.
type stamp struct {
	size int64
	at   time.Time
}

func listing(t *testing.T, dir string) map[string]stamp {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]stamp{}
	for _, f := range files {
		if f.Name() == "LOCK" {
			continue
		}
		if st, err := f.Info(); err == nil { // else it went just now, and the next listing shows it
			out[f.Name()] = stamp{st.Size(), st.ModTime()}
		}
	}
	return out
}

// copySparse copies a file and leaves out what is zero: Badger's files are mostly holes.
func copySparse(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := out.Truncate(st.Size()); err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for at := int64(0); at < st.Size(); at += int64(len(buf)) {
		n, err := in.ReadAt(buf, at)
		if n == 0 {
			return err
		}
		if len(trimZero(buf[:n])) > 0 {
			if _, err := out.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
	}
	return nil
}

func trimZero(b []byte) []byte {
	for n, c := range b {
		if c != 0 {
			return b[n:]
		}
	}
	return nil
}
