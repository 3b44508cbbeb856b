package pgledger

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"shoal/manager/archive/ledger/badgerledger"
)

// TestOpenAnew empties a folder into which a command looks: it waits for the command to end, and each of the two keeps its own lock.
func TestOpenAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	looks, err := badgerledger.Open(badgerledger.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "of before"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	var ends atomic.Bool
	go func() {
		time.Sleep(100 * time.Millisecond)
		ends.Store(true)
		closed <- looks.Close()
	}()
	anew, err := openAnew(t.Context(), badgerledger.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if !ends.Load() {
		t.Error("the folder was emptied under the command")
	}
	if err := <-closed; err != nil {
		t.Errorf("the command ends with %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "of before")); !os.IsNotExist(err) {
		t.Errorf("the folder was not emptied: %v", err)
	}
	if err := anew.Close(); err != nil {
		t.Error(err)
	}
}
