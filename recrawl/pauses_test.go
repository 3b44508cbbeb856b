package recrawl

import (
	"math"
	"testing"
)

// TestStoppedTimeIsNoSlowSwarm stops a manager for two days, or has its computer sleep, before intervals are reassigned. They are what they are without that.
func TestStoppedTimeIsNoSlowSwarm(t *testing.T) {
	const channels, every, down = 20, 30, 2880
	opt := Options{Initial: []float64{every}, MaxOut: 1, Prior: Prior(100, .5)}
	for name, p := range map[string]Params{"iir": {}, "iir, by channel": {IIR: "channel"}, "icr": {}} {
		first := func(stop Tick, restart bool) float64 {
			strategy := name[:3]
			s := NewScheduler(1, must(t, strategy, p), opt)
			var all []Slot
			for range channels {
				all = append(all, s.Add(Facts{Est: Exactly(every), Flags: Known}))
			}
			late := Tick(0)
			for now := Tick(1); now < 400; now++ {
				if now == stop {
					late = down
					if restart {
						again, err := RestoreScheduler(now+late, must(t, strategy, p), opt, s.AppendState(nil))
						if err != nil {
							t.Fatal(err)
						}
						for _, at := range all {
							f := s.Facts(at)
							again.Add(f)
						}
						s = again
					}
				}
				s.Next(now+late, Load{Room: -1}, func(Slot) (Tick, bool) { return 0, true })
				for _, at := range all {
					if s.Facts(at).Out > 0 {
						s.Observe(now+late, at, Event{Kind: Updated, Changed: true, Wait: 1, Service: 1})
					}
				}
				if v := s.Strategy().(*interval); len(v.t) > 0 {
					return v.t[0]
				}
			}
			t.Fatalf("%s: never reassigned", name)
			return 0
		}
		want := first(0, false)
		for what, got := range map[string]float64{"stopped": first(100, true), "asleep": first(100, false)} {
			if math.Abs(got-want) > .2*want {
				t.Errorf("%s, %s: an interval of %.1f ticks, want %.1f as without that", name, what, got, want)
			}
		}
	}
}

// TestPauses has time between questions count unless it is so long that nobody can have asked.
func TestPauses(t *testing.T) {
	var p pauses
	for _, now := range []Tick{5, 6, 6 + leastPause - 1, 100, 100, 101, 300} {
		p.see(now)
	}
	p.heard(350)
	p.see(1000)
	for _, c := range []struct{ from, to, want Tick }{{1, 15, 14}, {1, 100, 14}, {50, 100, 0}, {50, 101, 1}, {1, 1000, 65}, {320, 400, 30}, {1000, 1010, 10}} {
		if got := p.awake(c.from, c.to); got != c.want {
			t.Errorf("of %d to %d %d ticks count, want %d: %+v", c.from, c.to, got, c.want, p.all)
		}
	}
	for i := range Tick(pausesKept) {
		p.see(2000 + 100*i)
	}
	if len(p.all) != pausesKept || p.lost == 0 || p.lost > 1000 {
		t.Errorf("%d pauses are kept, and lost until %d", len(p.all), p.lost)
	}
}

// TestPausesOutliveRestarts restores a state with pauses, and those of versions that knew none.
func TestPausesOutliveRestarts(t *testing.T) {
	v := must(t, "icr", Params{}).(*interval)
	v.epoch, v.last, v.rests.all = 1, []float64{0}, []pause{{10, 500}, {600, 900}}
	again := must(t, "icr", Params{}).(*interval)
	if err := again.Restore(v.AppendState(nil)); err != nil || len(again.rests.all) != 2 || again.rests.awake(0, 1000) != 210 {
		t.Errorf("%+v, %v", again.rests, err)
	}
	v.rests.all = []pause{{10, 5}}
	if err := again.Restore(v.AppendState(nil)); err == nil {
		t.Error("a pause that ends before it begins is read")
	}
	b := v.AppendState(nil)
	if err := again.Restore(b[:len(b)-8-16]); err != nil || len(again.rests.all) != 0 {
		t.Errorf("of a version that knew no pauses: %+v, %v", again.rests, err)
	}
}

// TestSleepIsNoLostCapacity has the manager's computer sleep between two plans: what the swarm has to spend is what it is without that.
func TestSleepIsNoLostCapacity(t *testing.T) {
	measure := func(name string, sleep Tick) float64 {
		s := must(t, name, Params{})
		groups := newGroups(1, nil)
		s.Start(1, Setting{Groups: groups, Limits: &Limits{Least: 1}})
		f := Facts{Est: Exactly(5000), Flags: Known, Submitted: 1, Updated: 1}
		now := Tick(1)
		for n := range 1000 {
			if n == 500 {
				now += sleep
			}
			now++
			s.Quota(now, Load{Room: 4, Threads: 8, Idle: 4})
			s.Observe(now, 0, &f, Event{Kind: Submitted})
			s.Observe(now, 0, &f, Event{Kind: Updated, Service: 1})
		}
		if c, ok := s.(*cyclic); ok {
			c.plan = &cyclePlan{}
			return c.nextPeriod(now).capacity
		}
		return s.(*optimal).capacity(now)
	}
	for _, name := range []string{"optimal", "cycle"} {
		if want, got := measure(name, 0), measure(name, 5000); want <= 0 || math.Abs(got-want) > .01*want {
			t.Errorf("%s: a capacity of %.3f after a sleep, want %.3f as without", name, got, want)
		}
	}
}
