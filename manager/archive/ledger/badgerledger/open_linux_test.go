package badgerledger

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
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

// TestOpenWithoutAByte opens a database when another program has taken the last byte. Making the ledger anew would need more room still, and mend nothing.
func TestOpenWithoutAByte(t *testing.T) {
	runtime.LockOSThread() // for good: the thread has file systems of its own, and ends with the test's goroutine
	dir := t.TempDir()
	err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
	if err == nil {
		err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"))
	}
	if errors.Is(err, os.ErrPermission) && os.Getenv("SHOAL_TEST_STRICT") != "1" {
		t.Skip("a disk that another program fills is not looked at: only root may mount one")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "other"), make([]byte, 17<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	for what, open := range map[string]func() error{
		"the file by which Badger holds it": func() error {
			db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
			if err == nil {
				err = errors.Join(errors.New("it opens"), db.Close())
			}
			return explain(err)
		},
		"all of it": func() error {
			s, err := Open(Config{Dir: dir})
			if err == nil {
				err = errors.Join(errors.New("it opens"), s.Close())
			}
			return err
		},
	} {
		if err := open(); !errors.Is(err, ledger.ErrFull) || errors.Is(err, ledger.ErrState) || strings.Contains(err.Error(), "rebuild") || !strings.Contains(err.Error(), "make room") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
