//go:build unix && !aix && !solaris

package tables

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// inUse reports whether Badger's lock of a folder is held. It returns false for a folder that cannot be opened;
// opening it will return the reason.
func inUse(dir string) bool { return errors.Is(unused(dir, func() error { return nil }), ErrInUse) }

// unused does something to a folder under Badger's lock, so that no process opens it meanwhile. It returns ErrInUse if
// a process holds the lock.
func unused(dir string, do func() error) error {
	f, err := os.Open(dir)
	if err != nil {
		return nil //nolint:nilerr // opening the folder will return the reason
	}
	defer f.Close() // nothing was written
	if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return ErrInUse
	}
	defer unix.Flock(int(f.Fd()), unix.LOCK_UN) //nolint:errcheck // at once, also if a child process that is being started has a copy of the file
	return do()
}
