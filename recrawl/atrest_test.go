package recrawl

import "testing"

// TestPausedChannelsCountForNothing has iir and icr come to the same intervals at the same time, however many channels are paused beside those that are
// crawled: be it since the start, or since an operator has paused them.
func TestPausedChannelsCountForNothing(t *testing.T) {
	run := func(name string, paused int, later bool) (Tick, []float64) {
		v := must(t, name, Params{Delta: .25, Mu: 4}).(*interval)
		s := NewScheduler(1, v, Options{Initial: []float64{10, 40}, Prior: Prior(10, 1)})
		var rest []Slot
		for i := range 5 + paused {
			f := Facts{Est: Exactly(10), Flags: Known, Submitted: 1}
			if i >= 2 && i < 5 {
				f.Est = Exactly(40)
			}
			if i >= 5 && !later {
				f.Flags |= Paused
			}
			at := s.Add(f)
			if i >= 5 && later {
				rest = append(rest, at)
			}
		}
		for _, at := range rest {
			s.Edit(at, func(f *Facts) { f.Flags |= Paused })
		}
		for now := Tick(1); now < 2000; now++ {
			var done []Slot
			s.Next(now, Load{Room: -1}, func(at Slot) (Tick, bool) { done = append(done, at); return 0, true })
			if v.epoch > 1 {
				return now, v.Intervals()
			}
			for _, at := range done {
				s.Observe(now, at, Event{Kind: Updated})
			}
			if paused > 0 && now == 20 { // an operator has one crawled all the same
				s.Observe(now, 5, Event{Kind: Updated})
			}
		}
		t.Fatalf("%s: with %d paused channels the intervals are never set anew", name, paused)
		return 0, nil
	}
	for _, name := range []string{"iir", "icr"} {
		at, want := run(name, 0, false)
		for _, later := range []bool{false, true} {
			if now, got := run(name, 7, later); now != at || !near(got, want) {
				t.Errorf("%s, paused later %v: intervals %v at %d, want %v at %d", name, later, got, now, want, at)
			}
		}
	}
}

// TestSlotOfARemovedChannel has a channel come into the slot of one that a plan knew: the plan says nothing of it, also if it was made at that time.
func TestSlotOfARemovedChannel(t *testing.T) {
	for _, name := range []string{"cycle", "optimal"} {
		for _, during := range []bool{false, true} {
			s := NewScheduler(1, must(t, name, Params{PlanEvery: 100, Periods: 3}), Options{Groups: 1, Prior: Prior(200, 1)})
			for range 20 {
				s.Add(Facts{Est: Exactly(2000), Flags: Known, Weight: 1})
			}
			last, replaced := Slot(0), false
			replace := func() {
				s.Remove(last)
				if at := s.Add(Facts{Weight: 1}); at != last {
					t.Fatalf("%s: the channel came to slot %d, not %d", name, at, last)
				}
				replaced = true
			}
			for now := Tick(1); now < 2000; now++ {
				if plan := s.Strategy().Plan(now); plan != nil {
					adopt, err := plan(t.Context(), s.Snapshot())
					if err != nil {
						t.Fatal(err)
					}
					if during && now > 500 && !replaced {
						replace()
					}
					adopt()
					s.Rerank()
					if !during && now > 500 && !replaced {
						replace()
					}
				}
				if replaced {
					if o, is := s.Strategy().(*optimal); is { // what it goes by once the channel was crawled
						if ticks, _ := o.interval(last, ptr(s.Facts(last))); ticks != s.Facts(last).Est.Interval() {
							t.Errorf("optimal, during a planning %v: a new channel goes by an interval of %v, want its own, %v", during, ticks, s.Facts(last).Est.Interval())
						}
					}
					value, again := s.Strategy().Rank(now, now, last, ptr(s.Facts(last)))
					if again > now || value <= 0 {
						t.Errorf("%s, during a planning %v: a channel that was never crawled has the value %v and is to come at %d; it is %d", name, during, value, again, now)
					}
					break
				}
				s.Next(now, Load{Room: 2, Threads: 2, Idle: 2}, func(at Slot) (Tick, bool) {
					defer s.Observe(now, at, Event{Kind: Updated, Service: 1})
					return 0, true
				})
			}
			if !replaced {
				t.Fatalf("%s: nothing was planned", name)
			}
		}
	}
}

func ptr(f Facts) *Facts { return &f }

// TestShareOfTheThreads has a manager that shares the swarm count only its part of the threads.
func TestShareOfTheThreads(t *testing.T) {
	for _, x := range []struct{ share, want float64 }{{0, 40}, {1, 40}, {.5, 20}} {
		var u usage
		for now := range Tick(11) {
			u.see(now+1, Load{Threads: 40, Idle: 10, Share: x.share})
		}
		if got := u.offer(11, 1); got != x.want || u.factor() != 40./30 {
			t.Errorf("share %v: %v threads are offered, %.3f times those used; want %v, 1.333", x.share, got, u.factor(), x.want)
		}
	}
}

// TestClockFarAhead has the clock show a time far ahead, and be right again: nothing is taken until it is right in the one way or the other, since the
// minimum interval would hold nothing back.
func TestClockFarAhead(t *testing.T) {
	for _, name := range Names() {
		s := NewScheduler(1, must(t, name, Params{PlanEvery: 100}), Options{Groups: 1, Prior: Prior(50, 1), MinTicks: 60})
		for range 10 {
			s.Add(Facts{Weight: 1})
		}
		run := func(from, to Tick) (n int) {
			for now := from; now < to; now++ {
				s.Next(now, Load{Room: -1, Threads: 9, Idle: 9}, func(at Slot) (Tick, bool) {
					n++
					defer s.Observe(now, at, Event{Kind: Updated, Changed: true, Service: 1})
					return 0, true
				})
			}
			return n
		}
		if run(1, 500) == 0 {
			t.Fatalf("%s takes nothing", name)
		}
		far := Tick(500 + 12*30*1440)
		run(far, far+5)
		if n := run(501, 800); n > 0 || s.Ahead(800) == 0 {
			t.Errorf("%s: %d tasks of 10 channels in 300 ticks, which the clock had long passed; ahead by %d", name, n, s.Ahead(800))
		}
		if s.Ahead(far+6) != 0 || run(far+6, far+500) == 0 {
			t.Errorf("%s takes nothing when the time has come", name)
		}
	}
}
