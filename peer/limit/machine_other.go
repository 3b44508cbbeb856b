//go:build !linux && !windows && !darwin

package limit

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// OnBattery is not supported on this system.
func OnBattery() (bool, error) { return false, fmt.Errorf("%w: battery", ErrUnknown) }

// OnMetered is not supported on this system.
func OnMetered() (bool, error) { return false, fmt.Errorf("%w: metered link", ErrUnknown) }

// Use knows nothing on this system.
func (m *Machine) Use() Use {
	return judge([]Trial{{Source: SourceInput, Why: "this program cannot ask this system"}})
}

func (m *Machine) busy() (int, error) {
	return 0, fmt.Errorf("%w: load of the processors", ErrUnknown)
}

// LowPriority gives this process the lowest priority for processors.
func LowPriority() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
		return fmt.Errorf("limit: nice: %w", err)
	}
	return nil
}
