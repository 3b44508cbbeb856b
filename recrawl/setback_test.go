package recrawl

import (
	"math/rand/v2"
	"testing"
)

// TestClockSetBack has the clock of a manager be ahead for a while, by hours or by weeks, and be right again, as it runs or after a restart: channels are
// crawled about as often in the day after that as in the day before.
func TestClockSetBack(t *testing.T) {
	const day, n, threads = 400, 80, 3
	for _, name := range Names() {
		for _, ahead := range []Tick{300, 100 * day} {
			for _, restart := range []bool{false, true} {
				opt := DefaultOptions()
				s := NewScheduler(1, must(t, name, Params{PlanEvery: day}), opt)
				rng := rand.New(rand.NewPCG(1, 1))
				for i := range n {
					s.Add(Facts{Weight: 1, Est: Exactly(float64(20 + 3*i)), Flags: Known})
				}
				busy := map[Slot]Tick{} // how long tasks run still
				run := func(from, ticks Tick) (tasks int) {
					for now := from; now < from+ticks; now++ {
						for at := range Slot(n) {
							if busy[at]--; busy[at] == 0 {
								s.Observe(now, at, Event{Kind: Updated, Changed: rng.IntN(2) == 0, Wait: 1, Service: 5})
							}
							if busy[at] <= 0 {
								delete(busy, at)
							}
						}
						if plan := s.Strategy().Plan(now); plan != nil {
							adopt, err := plan(t.Context(), s.Snapshot())
							if err != nil {
								t.Fatal(err)
							}
							adopt()
							s.Rerank()
						}
						idle := threads - len(busy)
						tasks += s.Next(now, Load{Room: idle, Out: len(busy), Threads: threads, Idle: idle}, func(at Slot) (Tick, bool) {
							busy[at] = 6
							return 0, true
						})
					}
					return tasks
				}
				run(1, 2*day)
				before := run(2*day+1, day)
				run(3*day+1+ahead, 20)
				now := Tick(3*day + 21)
				if restart {
					state := s.AppendState(nil)
					facts := s.Snapshot()
					var err error
					if s, err = RestoreScheduler(now, must(t, name, Params{PlanEvery: day}), opt, state); err != nil {
						t.Fatal(err)
					}
					for _, f := range facts {
						f.DatedBy(now)
						s.Add(f)
					}
				}
				if after := run(now, day); after < before*8/10 || after > before*12/10 {
					t.Errorf("%s, ahead by %d minutes, restart %v: %d tasks in the day after, %d in the day before", name, ahead, restart, after, before)
				}
			}
		}
	}
}
