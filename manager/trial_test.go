package manager

import (
	"testing"
	"time"

	"shoal/recrawl"
)

// TestTrialGivesIdleThreadsWhatIsStale: strategies are compared by what the manager would do with them, which gives room that they leave to copies that are
// probably stale, but under fixed.
func TestTrialGivesIdleThreadsWhatIsStale(t *testing.T) {
	const at, every, capacity = 100_000, 1000, 5
	cfg, opt := Config{Tick: time.Minute}, recrawl.DefaultOptions()
	opt.Initial = []float64{every}
	made := func(name string) recrawl.Strategy {
		strategy, err := StrategyChoice{Name: name}.strategy(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		return strategy
	}
	for name, want := range map[string]int{"icr": 60 * capacity, "iir": 60 * capacity, "price": 60 * capacity, "fixed": 0} {
		try := trial{of: 400, state: recrawl.NewScheduler(at, made(name), opt).AppendState(nil), opt: opt, capacity: capacity, at: at}
		for range try.of { // none of them is due by its group's interval
			try.facts = append(try.facts, recrawl.Facts{Submitted: at - .9*every, Updated: at - .9*every, Est: recrawl.Exactly(every), Weight: 1, Flags: recrawl.Known})
		}
		now, err := try.run(t.Context(), made(name), nil, 0, cfg)
		if err != nil || now.Strategy != name || now.Tasks < want*9/10 || now.Tasks > want {
			t.Errorf("%s hands out %d tasks, want %d, %v", now.Strategy, now.Tasks, want, err)
		}
		then, err := try.run(t.Context(), made(name), made("price"), 0, cfg)
		if err != nil || then.Strategy != "price" || then.Tasks < 54*capacity || then.Tasks > 60*capacity {
			t.Errorf("%s after %s hands out %d tasks, want %d, %v", then.Strategy, name, then.Tasks, 60*capacity, err)
		}
	}
}
