package main

import (
	"testing"
	"time"

	"shoal/manager/desk"
)

// TestNextVisitOfAHost: a blocked host is not visited now.
func TestNextVisitOfAHost(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for _, c := range []struct {
		h    desk.Host
		want string
	}{{desk.Host{}, "now"}, {desk.Host{NextVisit: later}, when(later)}, {desk.Host{Blocked: "asked to"}, "-"}, {desk.Host{Blocked: "asked to", NextVisit: later}, "-"}} {
		if got := nextVisit(&c.h); got != c.want {
			t.Errorf("%+v: %q, want %q", c.h, got, c.want)
		}
	}
}
