package peer

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// lock makes sure that a folder has one agent. The lock goes with the process, however it ends.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("peer: data folder: %w", err)
	}
	var at windows.Overlapped
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if err != nil {
		f.Close()
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			return nil, fmt.Errorf("%w: %s; end the other one, or use another folder with --data", ErrLocked, path)
		}
		return nil, fmt.Errorf("peer: lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
