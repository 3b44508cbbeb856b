package recrawl_test

import (
	"fmt"
	"slices"

	"shoal/recrawl"
)

// oldest is a whole strategy: it crawls every channel each 60 ticks, and the one that has waited longest first. Everything else it leaves to
// recrawl.Base.
type oldest struct{ recrawl.Base }

func (oldest) Name() string { return "oldest" }

func (oldest) Rank(now, _ recrawl.Tick, _ recrawl.Slot, f *recrawl.Facts) (value float32, again recrawl.Tick) {
	return float32(now - f.Submitted), f.Submitted + 60
}

// A strategy needs a name and a way to compare channels. To offer it to operators and to the simulator, add a line to the table in
// registry.go.
func ExampleStrategy() {
	s := recrawl.NewScheduler(1, oldest{}, recrawl.DefaultOptions())
	for _, last := range []recrawl.Tick{30, 10, 20} {
		s.Add(recrawl.Facts{Submitted: last, Updated: last, Est: recrawl.Exactly(60), Flags: recrawl.Known})
	}
	for now := recrawl.Tick(60); now <= 90; now += 15 {
		var taken []recrawl.Slot
		s.Next(now, recrawl.Load{Room: -1}, func(at recrawl.Slot) (again recrawl.Tick, ok bool) {
			taken = append(taken, at) // here a manager makes the task
			return 0, true
		})
		fmt.Printf("tick %d: slots %v\n", now, taken)
		slices.Sort(taken)
		for _, at := range taken {
			s.Observe(now, at, recrawl.Event{Kind: recrawl.Updated, Changed: true})
		}
	}
	// Output:
	// tick 60: slots []
	// tick 75: slots [1]
	// tick 90: slots [2 0]
}
