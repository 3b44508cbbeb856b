//go:build !linux && !windows && !darwin

package limit

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// OnBattery cannot tell here.
func OnBattery() (bool, error) { return false, fmt.Errorf("%w: battery", ErrUnknown) }

// OnMetered cannot tell here.
func OnMetered() (bool, error) { return false, fmt.Errorf("%w: metered link", ErrUnknown) }

// InUse cannot tell here.
func InUse() (bool, error) {
	return false, fmt.Errorf("%w: somebody at the computer", ErrUnknown)
}

func (m *Machine) busy() (int, error) {
	return 0, fmt.Errorf("%w: load of the processors", ErrUnknown)
}

// LowPriority puts this process last in line for processors.
func LowPriority() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
		return fmt.Errorf("limit: nice: %w", err)
	}
	return nil
}
