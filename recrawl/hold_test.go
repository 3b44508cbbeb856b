package recrawl

import "testing"

// TestHold has slots in each state that keeps them from being crawled.
func TestHold(t *testing.T) {
	const now, every = 1000, 100
	for name, c := range map[string]struct {
		f        Facts
		strategy string
		want     Hold
	}{
		"never crawled":            {Facts{}, "icr", Free},
		"fresh":                    {Facts{Submitted: now - 60, Updated: now - 60}, "icr", NotStale},
		"fresh, and lately":        {Facts{Submitted: now - 40, Updated: now - 40}, "icr", Early},
		"stale":                    {Facts{Submitted: now - 90, Updated: now - 90}, "icr", Free},
		"stale, fixed":             {Facts{Submitted: now - 90, Updated: now - 90}, "fixed", Strict},
		"due, fixed":               {Facts{Submitted: now - 200, Updated: now - 200}, "fixed", Free},
		"stale, crawled in vain":   {Facts{Submitted: now - 40, Updated: now - 90}, "icr", AtCap},
		"likewise, and lately":     {Facts{Submitted: now - 5, Updated: now - 90}, "icr", TooSoon},
		"likewise, and was denied": {Facts{Submitted: now - 5, Updated: now - 90, Flags: Denied}, "icr", Denial},
		"signalled, and lately":    {Facts{Submitted: now - 5, Updated: now - 4, Signalled: now - 1}, "icr", TooSoon},
		"paused":                   {Facts{Flags: Paused}, "icr", Rests},
		"out":                      {Facts{Submitted: now - 5, Updated: now - 90, Out: 1}, "icr", Under},
	} {
		s := NewScheduler(now, must(t, c.strategy, Params{}), Options{Initial: []float64{every}, Cap: 2, MinTicks: 10, MaxOut: 1, Prior: Prior(every, 1)})
		c.f.Est, c.f.Flags = Exactly(every), c.f.Flags|Known
		at := s.Add(c.f)
		s.Next(now, Load{Room: 0}, func(Slot) (Tick, bool) { return 0, true })
		if got := s.Hold(now, at); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
