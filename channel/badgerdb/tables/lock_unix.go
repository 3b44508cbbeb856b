//go:build unix && !aix && !solaris

package tables

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// inUse tells whether Badger's lock of a folder is held. A folder that cannot be opened is not in use; who opens it will say why.
func inUse(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close() // nothing was written, and the lock goes with it
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
