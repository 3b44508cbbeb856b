//go:build !linux && !darwin && !windows

package peer

import (
	"time"
)

// sinceBoot is the time since the system's start, sleep included. It is not known here.
func sinceBoot() time.Duration {
	return 0
}
