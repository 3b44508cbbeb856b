package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"shoal/peer"
	"shoal/peer/limit"
)

// TestPausesAreNamed checks that whatever pauses a peer is listed among its limits, with its source.
func TestPausesAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		st   status
		want string
	}{
		"nothing":     {status{Status: peer.Status{Mode: "open"}}, ""},
		"by a limit":  {status{Status: peer.Status{Mode: "open", Hold: "not at this hour (x)"}, Limits: limit.Force{Paused: "not at this hour (x)"}}, "not at this hour (x)"},
		"by machine":  {status{Status: peer.Status{Mode: "open", Hold: "on battery (your settings, on_battery)"}}, "on battery (your settings, on_battery)"},
		"by its user": {status{Status: peer.Status{Mode: "paused"}}, "until shoal-peer resume  (shoal-peer pause)"},
		"for a while": {status{Status: peer.Status{Mode: "paused", Until: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)}}, "until 2026-01-02 03:04:05  (shoal-peer pause)"},
	} {
		var out bytes.Buffer
		printLimits(&out, &c.st)
		got := ""
		for line := range strings.Lines(out.String()) {
			if rest, is := strings.CutPrefix(line, "  paused    "); is {
				got += strings.TrimSuffix(rest, "\n")
			}
		}
		if got != c.want {
			t.Errorf("%s: paused %q, want %q, in\n%s", name, got, c.want, &out)
		}
	}
}
