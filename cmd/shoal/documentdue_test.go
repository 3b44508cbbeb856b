package main

import (
	"testing"
	"time"
)

// TestDocumentDue goes by the wall clock: a computer that slept for a day has a document to sign, though hardly any time has passed by its timers.
func TestDocumentDue(t *testing.T) {
	now := time.Now()
	asleep := func(d time.Duration) time.Time { // the wall clock goes on by d, the other one stands
		return now.Round(0).Add(d)
	}
	for name, c := range map[string]struct {
		now  time.Time
		want bool
	}{
		"at once":               {now, false},
		"an hour later":         {now.Add(time.Hour), false},
		"half a day later":      {now.Add(documentEvery), true},
		"after a night's nap":   {asleep(8 * time.Hour), false},
		"after a weekend":       {asleep(60 * time.Hour), true},
		"the clock is set back": {asleep(-time.Hour), true},
	} {
		if got := documentDue(now, c.now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
