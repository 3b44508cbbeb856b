package programs

import (
	"os"

	"golang.org/x/sys/windows"
)

// flock waits for the lock of an open file.
func flock(f *os.File) error {
	var at windows.Overlapped
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &at)
}
