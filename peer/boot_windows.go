package peer

import (
	"time"

	"golang.org/x/sys/windows"
)

// sinceBoot is the time since the system's start, sleep included.
func sinceBoot() time.Duration {
	return windows.DurationSinceBoot()
}
