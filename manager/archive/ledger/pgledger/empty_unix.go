//go:build unix

package pgledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"shoal/manager/archive/ledger"
)

// empty removes what is in the folder of a database, unless a program has it open. It holds the database's own lock meanwhile, so that no program opens it.
func empty(dir string) error {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: stop the program that uses %s", ledger.ErrLocked, dir)
	} else if err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	names, err := f.Readdirnames(-1)
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
	}
	return err
}
