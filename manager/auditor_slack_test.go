package manager

import (
	"testing"
	"time"
)

// TestSlackOfAPond: where ticks are shorter than a minute, so is the time by which servers' dates may be wrong.
func TestSlackOfAPond(t *testing.T) {
	for tick, want := range map[time.Duration]time.Duration{time.Minute: 2 * time.Minute, time.Hour: 2 * time.Minute, time.Second: 2 * time.Second, time.Millisecond: time.Second} {
		if got := slackOf(tick); got != want {
			t.Errorf("ticks of %v: %v, want %v", tick, got, want)
		}
	}
}
