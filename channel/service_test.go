package channel

import (
	"testing"
	"time"
)

// TestServiceOfAnyClock stores what crawls took by clocks that were set back or far ahead meanwhile: such a channel can be read again.
func TestServiceOfAnyClock(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{-442568 * time.Microsecond: 0, 1<<63 - 1: maxDuration, time.Minute: time.Minute} {
		l, err := ParseLearnt((&Learnt{Service: took}).Marshal())
		if err != nil || l.Service != want {
			t.Errorf("%v is read as %v, %v", took, l.Service, err)
		}
	}
}
