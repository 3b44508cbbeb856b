//go:build unix

package text

import (
	"syscall"
	"time"
)

// computed is how long this process has computed so far. A busy machine hardly changes it.
func computed() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
