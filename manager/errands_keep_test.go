package manager

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"shoal/manager/trust"
)

// farSighted is an arbiter that is there.
type farSighted struct{ Arbiter }

// TestChecksWithoutAnArbiter has a manager start without the arbiter that was to check newcomers: peers do that, and no host waits for a look that never comes.
func TestChecksWithoutAnArbiter(t *testing.T) {
	kept, err := json.Marshal([]keptErrand{{Host: "https://a.example", Until: time.Now().Add(time.Hour), Arbiter: true,
		Pages: []keptWanted{{URL: "https://a.example/", Case: trust.Case{Accused: 7}}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []bool{false, true} {
		au, _, d := judging(t)
		if d.states[stateErrands] = kept; !off {
			au.cfg.Arbiter = farSighted{}
		}
		if err := au.restoreErrands(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if looks, checks := len(au.visits.waits), len(au.errands.waits); off && (looks != 0 || checks != 1 || !slices.Equal(au.errands.waits[0].apart, []trust.Peer{7})) || !off && (looks != 1 || checks != 0) {
			t.Errorf("off %v: %d looks of the arbiter, %d checks", off, looks, checks)
		}
	}
}
