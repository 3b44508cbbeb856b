//go:build unix

package tables

import (
	"context"
	"os/exec"
	"sync"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// TestReleased opens and closes a database again and again while child processes are started.
func TestReleased(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	dir := t.TempDir()
	for n := range 15 {
		if inUse(dir) {
			t.Fatalf("the folder is in use after %d rounds", n)
		}
		db, err := badger.Open(badger.DefaultOptions(dir).WithLoggingLevel(badger.ERROR))
		if err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		Released(dir)
	}
}
