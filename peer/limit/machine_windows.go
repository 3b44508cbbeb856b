package limit

import (
	"fmt"

	"golang.org/x/sys/windows"
)

func readTicks() (ticks, error) { return ticks{}, fmt.Errorf("%w: load of the processors", ErrUnknown) }

// OnMetered cannot tell on Windows without its component model.
func OnMetered() (bool, error) { return false, fmt.Errorf("%w: metered link", ErrUnknown) }

// InUse cannot tell here.
func InUse() (bool, error) {
	return false, fmt.Errorf("%w: somebody at the computer", ErrUnknown)
}

// LowPriority puts this process into the background mode, for processors, disks and memory.
func LowPriority() error {
	const background = 0x00100000 // PROCESS_MODE_BACKGROUND_BEGIN
	if err := windows.SetPriorityClass(windows.CurrentProcess(), background); err != nil {
		return fmt.Errorf("limit: background mode: %w", err)
	}
	return nil
}
