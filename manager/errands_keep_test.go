package manager

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"shoal/manager/dispatch"
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

// TestAuditOfAClockThatWasAhead restores an audit that is of use for longer than any may be: the clock was ahead. It is awaited for as long as one of now.
func TestAuditOfAClockThatWasAhead(t *testing.T) {
	now := time.Now()
	au, _, d := judging(t)
	within := au.trust.Config().WithinAudit
	state, err := json.Marshal([]keptErrand{{Host: "https://a.example", Until: now.Add(within + 10*time.Minute), Pages: []keptWanted{{URL: "https://a.example/"}}}})
	if err != nil {
		t.Fatal(err)
	}
	d.states[stateErrands] = state
	if err := au.restoreErrands(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if left := au.errands.waits[0].until.Sub(now); left.Round(time.Second) != within {
		t.Errorf("it is awaited for %v, want %v", left, within)
	}
}

// TestAuditsOutliveAQuickRestart has one of several managers start anew before another one has taken its hosts: who takes them finds the audits that waited or were out
// in what this one writes now, until they are of no use.
func TestAuditsOutliveAQuickRestart(t *testing.T) {
	now := time.Now()
	of := func(page string, until time.Duration, place int) keptErrand {
		return keptErrand{Host: "https://a.example", Until: now.Add(until), Place: place, Pages: []keptWanted{{URL: "https://a.example/" + page}}}
	}
	state, err := json.Marshal([]keptErrand{of("waits", time.Minute, 0), of("is out", time.Minute, 1), of("is late", -time.Minute, 0)})
	if err != nil {
		t.Fatal(err)
	}
	au, _, d := judging(t)
	d.states[stateErrands] = state
	au.machine = dispatch.New(now, dispatch.Config{}, nil, nil, nil)
	au.tenancy = &tenancy{core: au.core}
	if err := au.restoreErrands(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]int{time.Second: 2, time.Hour: 0} {
		au.cfg.Now = func() time.Time { return now.Add(after) }
		b, err := au.errandsState()
		if err != nil {
			t.Fatal(err)
		}
		var kept []keptErrand
		if err := json.Unmarshal(b, &kept); err != nil || len(kept) != want || want > 0 && (kept[0].Place != 0 || kept[1].Place != 1) {
			t.Errorf("after %v: %+v, %v; want %d", after, kept, err, want)
		}
	}
}
