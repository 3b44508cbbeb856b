package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestKeptPort: the manager of a data folder is found where it was when it starts again.
func TestKeptPort(t *testing.T) {
	data := filepath.Join(t.TempDir(), "up-web")
	port, err := keptPort(data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := keptPort(data); again != port || err != nil {
		t.Errorf("port %d, then %d, %v", port, again, err)
	}
	if err := os.WriteFile(filepath.Join(data, "listens-at"), []byte("\x00ten\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err = keptPort(data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := keptPort(data); again != port || err != nil {
		t.Errorf("port %d after a damaged file, then %d, %v", port, again, err)
	}
}
