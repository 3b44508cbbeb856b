package processor

import (
	"testing"
	"time"
)

// TestTime computes for a while. It never took less than what the clock of the processor can tell.
func TestTime(t *testing.T) {
	before, began := Time(t), time.Now()
	sum := 0
	for Time(t)-before < 50*time.Millisecond {
		for i := range 1 << 16 {
			sum += i * sum
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("a minute of computing (%d) took %v of the processor", sum, Time(t)-before)
		}
	}
}
