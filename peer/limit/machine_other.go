//go:build !linux && !windows

package limit

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

func readTicks() (ticks, error) { return ticks{}, fmt.Errorf("%w: load of the processors", ErrUnknown) }

// OnMetered cannot tell here.
func OnMetered() (bool, error) { return false, fmt.Errorf("%w: metered link", ErrUnknown) }

// InUse cannot tell here.
func InUse() (bool, error) {
	return false, fmt.Errorf("%w: somebody at the computer", ErrUnknown)
}

// LowPriority puts this process last in line: macOS has a background mode for processors, disks and network.
func LowPriority() error {
	which, value := unix.PRIO_PROCESS, 19
	if runtime.GOOS == "darwin" {
		which, value = 4, 0x1000 // PRIO_DARWIN_PROCESS, PRIO_DARWIN_BG
	}
	if err := unix.Setpriority(which, 0, value); err != nil {
		return fmt.Errorf("limit: nice: %w", err)
	}
	return nil
}
