//go:build unix

package peer

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock makes sure that a folder has one agent. The lock goes with the process, however it ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("peer: data folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s; end the other one, or use another folder with --data", ErrLocked, path)
		}
		return nil, fmt.Errorf("peer: lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
