package peer

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time since the system's start, sleep included.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil { // goes on in sleep, other than Go's own monotonic clock
		return 0
	}
	return time.Duration(t.Nano())
}
