package badgerledger

import (
	"errors"
	"os"
	"strings"
	"testing"

	"shoal/manager/archive/ledger"
)

// TestOpenOnAFullDisk: opening says that the disk is full. Badger would write to mapped memory, which ends the process.
func TestOpenOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(Config{Dir: dir, Free: func() (int64, error) { return 3 << 20, nil }})
	if !errors.Is(err, ledger.ErrFull) || !strings.Contains(err.Error(), "3 MiB left") || !strings.Contains(err.Error(), "make room") {
		t.Errorf("on a full disk: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it wrote %v, %v", left, err)
	}
	s, err := Open(Config{Dir: dir, Free: func() (int64, error) { return openRoom, nil }})
	if err != nil {
		t.Fatalf("with room: %v", err)
	}
	s.cfg.Free = nil
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
