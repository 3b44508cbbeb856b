//go:build unix && !aix && !solaris

package tables

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// TestInUse checks that a folder open in another process is not reported as damaged.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	db, err := badger.Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(options(dir)); !errors.Is(err, ErrInUse) {
		t.Errorf("while it is open: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Check(options(dir)); err != nil {
		t.Errorf("closed: %v", err)
	}
	// The check itself leaves no lock behind.
	db, err = badger.Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir)); err != nil {
		t.Fatal(err)
	}
	if inUse(dir) {
		t.Error("a folder that is not there is in use")
	}
}
