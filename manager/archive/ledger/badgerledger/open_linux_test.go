package badgerledger

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shoal/manager/archive/ledger"
)

// TestOpenWithoutPermission opens a database that another user may read and not write: the folder, or the file by which Badger holds it. That is no
// damage, and the advice to make the ledger anew would lose the time of a night.
func TestOpenWithoutPermission(t *testing.T) {
	for what, modes := range map[string][2]os.FileMode{"folder": {0o555, 0o666}, "file": {0o777, 0o444}} {
		dir := t.TempDir()
		if err := open(t, dir).Close(); err != nil {
			t.Fatal(err)
		}
		held := filepath.Join(dir, "LOCK")
		if err := os.WriteFile(held, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(held, modes[1]), os.Chmod(dir, modes[0])); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		go func() {
			if os.Getuid() == 0 { // for this thread alone, which ends with the goroutine
				runtime.LockOSThread()
				const nobody = 65534
				if err := unix.Setfsuid(nobody); err != nil {
					failed <- err
					return
				}
			}
			s, err := Open(Config{Dir: dir})
			if err == nil {
				err = errors.Join(errors.New("it opens"), s.Close())
			}
			failed <- err
		}()
		err := <-failed
		if !errors.Is(err, os.ErrPermission) || errors.Is(err, ledger.ErrState) || strings.Contains(err.Error(), "rebuild") {
			t.Errorf("without permission for the %s: %v", what, err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
