package main

import (
	"testing"
	"time"

	"shoal/manager/archive/remote"
)

// TestFlagsThatDoNothing: who sets for how long a bucket keeps strays is told where there is no bucket.
func TestFlagsThatDoNothing(t *testing.T) {
	for _, c := range []struct {
		strays time.Duration
		place  *remote.Place
		says   bool
	}{{0, nil, false}, {time.Hour, nil, true}, {time.Hour, &remote.Place{}, false}} {
		if note := idleFlags(&stationConfig{strays: c.strays}, c.place); (note != "") != c.says {
			t.Errorf("%v, %v: %q", c.strays, c.place, note)
		}
	}
}
