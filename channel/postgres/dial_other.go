//go:build !linux

package postgres

import (
	"syscall"
	"time"
)

// boundSilence leaves it to the system how long sent bytes may stay unacknowledged.
func boundSilence(syscall.RawConn, time.Duration) error { return nil }
