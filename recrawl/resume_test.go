package recrawl

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A strategy that was in force before goes on with the intervals that it had reached, and does not take the time of the other for one without updates.
func TestBackToAStrategy(t *testing.T) {
	_, _, v := drive(t, "iir", Params{Delta: .25}, 0)
	s := NewScheduler(v.since, v, Options{Initial: []float64{10, 40}, Prior: Prior(10, 1)})
	s.Add(Facts{})
	want, now := slices.Clone(v.t), v.since+50
	if len(want) == 0 {
		t.Fatal("no interval was reassigned")
	}
	state := s.AppendState(nil)
	s.SetStrategy(now, must(t, "price", Params{}))
	if err := Recover(must(t, "icr", Params{}), state); !errors.Is(err, ErrState) {
		t.Errorf("icr takes iir's state: %v", err)
	}
	back := must(t, "iir", Params{Delta: .3}).(*interval)
	if err := Recover(back, state); err != nil {
		t.Fatal(err)
	}
	s.SetStrategy(now+5000, back)
	if !slices.Equal(back.t, want) || back.since != now+5000 || back.p.Delta != .3 {
		t.Errorf("intervals %v since %d, want %v since %d", back.t, back.since, want, now+5000)
	}
	for i := range back.n {
		if back.n[i] != (tally{}) {
			t.Errorf("group %d counts %+v of before", i, back.n[i])
		}
	}
	f := &Facts{Group: 1, Submitted: now + 100} // by price
	if _, due := back.Rank(now+5000, 0, 0, f); due != f.Submitted+wholeTicks(want[1]) {
		t.Errorf("submitted at %d, due at %d, want after %v", f.Submitted, due, want[1])
	}
}

// What facts count for one strategy is none of another's after a restart, though both number their reassignments from 1.
func TestForeignCountersAreForgotten(t *testing.T) {
	opt := Options{Initial: []float64{30, 80}, MaxOut: 1, Prior: Prior(100, .5)}
	s := NewScheduler(1, must(t, "iir", Params{}), opt)
	at := s.Add(Facts{Est: Exactly(30), Flags: Known})
	for now := Tick(1); now < 400; now++ {
		s.Next(now, Load{Room: -1}, func(Slot) (Tick, bool) { return 0, true })
		if s.Facts(at).Out > 0 {
			s.Observe(now, at, Event{Kind: Updated, Changed: true, Wait: 1, Service: 1})
		}
	}
	f := s.Facts(at)
	if f.Succ == 0 || f.Epoch == 0 {
		t.Fatalf("nothing counted: %+v", f)
	}
	icr := must(t, "icr", Params{}).(*interval)
	other, err := RestoreScheduler(400, icr, opt, s.AppendState(nil))
	if err != nil {
		t.Fatal(err)
	}
	f.Epoch = icr.epoch
	if got := other.Facts(other.Add(f)); got.Succ != 0 || got.Subs != 0 || icr.n[got.Group] != (tally{}) {
		t.Errorf("icr counts what iir did: %+v, %+v", got, icr.n[got.Group])
	}
	same, err := RestoreScheduler(400, must(t, "iir", Params{}), opt, s.AppendState(nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := same.Facts(same.Add(s.Facts(at))); got.Succ != s.Facts(at).Succ {
		t.Errorf("iir has forgotten: %+v", got)
	}
}

// A window that has found its size does not grow by leaps after a restart.
func TestPriceStateKeepsItsPace(t *testing.T) {
	v := must(t, "price", Params{}).(*price)
	v.window, v.steep = 500, false
	again := must(t, "price", Params{}).(*price)
	if err := again.Restore(v.AppendState(nil)); err != nil || again.steep || again.window != 500 {
		t.Errorf("restored: %v, %+v", err, again)
	}
	if err := again.Restore(appendFloats(nil, []float64{1, 2000, 3, 4, 5, 6})); err != nil || !again.steep || again.usual != 6 {
		t.Errorf("a state of six numbers: %v, %+v", err, again)
	}
}

func TestParamsOfAnotherStrategyAreNamed(t *testing.T) {
	for name, p := range map[string]Params{"iir": {Delta: .1, Sigma: 2, Mu: 3, IIR: "channel"}, "icr": {Delta: .1}, "price": {NoCost: true, CostShare: .5}, "lambda": {TargetWait: 30},
		"cycle": {Periods: 3, PlanEvery: 60}, "optimal": {PlanEvery: 60}, "adaptive": {Rule: "nutch"}, "fixed": {}} {
		if err := p.Fits(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]Params{"icr": {IIR: "channel"}, "price": {Delta: .1}, "fixed": {Delta: .1}, "uniform": {NoCost: true}, "adaptive": {Periods: 2}} {
		if err := p.Fits(name); !errors.Is(err, ErrParams) {
			t.Errorf("%s takes %+v: %v", name, p, err)
		}
	}
	fields := reflect.VisibleFields(reflect.TypeFor[Params]())
	for name, strategy := range strategies {
		for _, p := range strategy.reads {
			if !slices.ContainsFunc(fields, func(f reflect.StructField) bool { return strings.ToLower(f.Name) == p }) {
				t.Errorf("strategy %s reads parameter %s, which does not exist", name, p)
			}
		}
	}
}

// TestSlipsInParameters: a parameter so large that its strategy would do nothing sensible is refused with its bound to whoever sets it.
func TestSlipsInParameters(t *testing.T) {
	for name, p := range map[string]Params{"price": {TargetWait: 1e300}, "iir": {Sigma: 1e7}, "icr": {Mu: 1e7}} {
		if err := p.Fits(name); !errors.Is(err, ErrParams) || !strings.Contains(err.Error(), "want at most") {
			t.Errorf("%s with %+v: %v", name, p, err)
		}
		if _, err := New(name, p); err != nil {
			t.Errorf("%s with %+v, which an earlier version took: %v", name, p, err)
		}
	}
	if err := (Params{TargetWait: -1}).Validate(); err == nil || !strings.Contains(err.Error(), "targetwait -1 ticks: want 0 to 33554431") {
		t.Error(err)
	}
}
