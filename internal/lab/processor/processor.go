// Package processor tells tests and benchmarks how much processor time this process has taken. A busy machine changes that less than the time that passes.
package processor

import (
	"testing"
	"time"
)

// Time is the processor time of this process so far, its own and the kernel's for it.
func Time(tb testing.TB) time.Duration {
	tb.Helper()
	spent, err := used()
	if err != nil {
		tb.Fatal(err)
	}
	return spent
}
