package recrawl

import (
	"fmt"
	"math"
	"testing"
)

// drive runs two groups of channels, 2 of interval 10 and 3 of 40, each task updating after one tick except that every failEvery-th is
// lost, until the intervals change; it returns the tick and the intervals.
func drive(t *testing.T, name string, p Params, failEvery int) (Tick, []float64, *interval) {
	t.Helper()
	v := must(t, name, p).(*interval)
	s := NewScheduler(1, v, Options{Initial: []float64{10, 40}, Prior: Prior(10, 1)})
	for i := range 5 {
		iv := 10.
		if i >= 2 {
			iv = 40
		}
		s.Add(Facts{Est: Exactly(iv), Flags: Known, Submitted: 1})
	}
	n := 0
	for now := Tick(1); now < 2000; now++ {
		var done []Slot
		s.Next(now, Load{Room: -1}, func(at Slot) (Tick, bool) {
			if n++; failEvery == 0 || n%failEvery != 0 {
				done = append(done, at)
			}
			return 0, true
		})
		if v.epoch > 1 {
			return now, v.Intervals(), v
		}
		for _, at := range done {
			s.Observe(now, at, Event{Kind: Updated})
		}
	}
	t.Fatal("never reassigned")
	return 0, nil, nil
}

func near(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-9*math.Abs(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

func TestReassignByHand(t *testing.T) {
	// Channels of group 0 update at 11, 21, ... 61 and so have 6 updates; those of group 1 at 41 have one. Reassigned at 62, dt = 61.
	for _, tc := range []struct {
		name string
		p    Params
		want []float64
	}{
		// pooled: 61*2/12 and 61*3/3, both encouraged (success 1 > 0), then bounded by mu.
		{"iir", Params{Delta: .25, Mu: 2}, []float64{61. / 6 * .75, 61. / 6 * .75 * 2}},
		{"iir", Params{Delta: .25, Mu: 100}, []float64{61. / 6 * .75, 61 * .75}},
		// channel: gaps from tick 1: 60/6 and 40/1.
		{"iir", Params{Delta: .25, Mu: 100, IIR: "channel"}, []float64{10 * .75, 40 * .75}},
		// icr: T0 = 61*(2 + 3/4)/15.
		{"icr", Params{Delta: .5, Mu: 100}, []float64{61 * 2.75 / 15 * .5, 61 * 2.75 / 15 * 4 * .5}},
		{"icr", Params{Delta: .5, Mu: 3}, []float64{61 * 2.75 / 15 * .5, 61 * 2.75 / 15 * 3 * .5}},
	} {
		at, got, _ := drive(t, tc.name, tc.p, 0)
		if at != 62 || !near(got, tc.want) {
			t.Errorf("%s %+v: at %d %v, want at 62 %v", tc.name, tc.p, at, got, tc.want)
		}
	}
}

func TestCheckPrioritiesRestoresOrder(t *testing.T) {
	v := newInterval("iir", Params{Sigma: 1.5, Mu: 2}, .3, 2)
	got := []float64{100, 90, 100, 1000, 500}
	v.checkPriorities(got)
	if want := "[100 150 225 450 500]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestEncourageOnlyWhenBetter: at the second reassignment with the same success the intervals are not shortened.
func TestEncourageOnlyWhenBetter(t *testing.T) {
	_, _, v := drive(t, "icr", Params{Delta: .5}, 0)
	for i := range v.n {
		v.n[i] = tally{sub: 10, suc: 10}
	}
	v.reassign(v.since + 100)
	if want := 100 * 2.75 / 20; math.Abs(v.t[0]-want) > 1e-9 {
		t.Errorf("T0 %v, want %v", v.t[0], want)
	}
}

func TestGroupWithoutUpdatesKeepsItsInterval(t *testing.T) {
	_, _, v := drive(t, "iir", Params{Delta: .5, Mu: 100}, 0)
	before := v.t[1]
	v.n[0] = tally{sub: 10, suc: 20}
	v.n[1] = tally{sub: 10}
	v.reassign(v.since + 10)
	if v.t[1] != before {
		t.Errorf("%v, want %v", v.t[1], before)
	}
}

func TestGroupsFollowChannels(t *testing.T) {
	s := NewScheduler(1, must(t, "fixed", Params{}), Options{Groups: 3, Relearn: 10, Prior: Prior(1440, .5)})
	for i := range 300 {
		s.Add(Facts{Est: Prior([]float64{30, 500, 20_000}[i%3]*(1+float64(i%7)/20), 10), Submitted: 1, Updated: 1})
	}
	s.Next(20, Load{Room: -1}, yes) // looks at the borders
	for i := range 300 {
		s.Observe(21, Slot(i), Event{Kind: Updated}) // moves the channels
	}
	for i := range 300 {
		if got := s.Facts(Slot(i)).Group; int(got) != i%3 {
			t.Fatalf("channel %d of interval %.0f is in group %d (borders %v)", i, s.Facts(Slot(i)).Est.Interval(), got, s.groups.bound)
		}
	}
	for i := range 3 {
		if s.groups.Count(i) != 100 {
			t.Errorf("group %d has %d channels", i, s.groups.Count(i))
		}
	}
	if iv := s.Intervals(); iv[0] > 50 || iv[1] < 400 || iv[2] < 15_000 {
		t.Errorf("intervals %v", iv)
	}
}

func TestChannelNearABorderStays(t *testing.T) {
	g := newGroups(2, []float64{10, 40}) // border 20
	for _, tc := range []struct {
		interval float64
		now, to  int
	}{{21, 0, 0}, {22.9, 0, 0}, {23.1, 0, 1}, {19, 1, 1}, {17, 1, 0}, {21, -1, 1}, {19, -1, 0}} {
		if got := g.of(tc.interval, tc.now); got != tc.to {
			t.Errorf("interval %v in group %d goes to %d, want %d", tc.interval, tc.now, got, tc.to)
		}
	}
}

// TestNewIntervalsHoldFromTheNextSubmission: shorter intervals make no channel due that was not, so that a group does not fall into step; and a
// restart does not change that.
func TestNewIntervalsHoldFromTheNextSubmission(t *testing.T) {
	_, _, v := drive(t, "iir", Params{Delta: .25}, 0)
	before := v.since - 5
	f := &Facts{Group: 1, Submitted: before}
	check := func(v *interval, what string) {
		t.Helper()
		if _, due := v.Rank(v.since, 0, 0, f); due != before+40 {
			t.Errorf("%s: submitted before the reassignment, due after %d ticks, want the 40 of then", what, due-before)
		}
		now := &Facts{Group: 1, Submitted: v.since}
		if _, due := v.Rank(v.since, 0, 0, now); due != v.since+wholeTicks(v.t[1]) {
			t.Errorf("%s: submitted since, due after %d ticks, want %v", what, due-v.since, v.t[1])
		}
	}
	check(v, "running")
	restored := must(t, "iir", Params{Delta: .25}).(*interval)
	if err := restored.Restore(v.AppendState(nil)); err != nil {
		t.Fatal(err)
	}
	restored.Start(v.since+1, Setting{Groups: v.g})
	check(restored, "restarted")
	for i := range 3 * regimesKept {
		for g := range v.n {
			v.n[g] = tally{sub: 10, suc: int64(10 - g - i%2)}
		}
		v.reassign(v.since + 1)
	}
	if len(v.past) != regimesKept {
		t.Errorf("%d past regimes are kept, want %d", len(v.past), regimesKept)
	}
}

// TestRefusedIsDueSooner checks that a refused task costs its channel half of an interval, not a whole one, and that
// a lost one does not come sooner if there are no refusals.
func TestRefusedIsDueSooner(t *testing.T) {
	for kind, want := range map[Kind]Tick{Refused: 51, Lost: 101, Failed: 101} {
		s := NewScheduler(1, must(t, "fixed", Params{}), Options{Initial: []float64{100}, MaxOut: 1, Prior: Prior(100, 1)})
		at := s.Add(Facts{})
		all := Load{Room: -1}
		admit := func(Slot) (Tick, bool) { return 0, true }
		if n := s.Next(1, all, admit); n != 1 {
			t.Fatalf("%d taken", n)
		}
		s.Observe(2, at, Event{Kind: kind})
		now := Tick(3)
		for s.Next(now, all, admit) == 0 && now < 300 {
			now++
		}
		if now != want {
			t.Errorf("kind %d: again at tick %d, want %d", kind, now, want)
		}
	}
}
