//go:build unix

package programs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// flock waits for the lock of an open file.
func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
