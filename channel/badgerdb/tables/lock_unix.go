//go:build unix && !aix && !solaris

package tables

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// inUse reports whether Badger's lock of a folder is held. It returns false for a folder that cannot be opened;
// opening it will return the reason.
func inUse(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close() // nothing was written, and the lock goes with it
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
