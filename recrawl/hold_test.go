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

// TestDue: a slot is due when its strategy wants it, by the interval that held when it was submitted, and not before the limits allow it.
func TestDue(t *testing.T) {
	const now, every = 1000, 100
	opt := Options{Initial: []float64{every}, Cap: 2, MinTicks: 10, MaxOut: 1, Prior: Prior(every, 1)}
	for name, c := range map[string]struct {
		f        Facts
		strategy string
		limits   Limits
		want     Tick // at most now: it may be taken
	}{
		"never crawled":         {Facts{}, "icr", Limits{2, 10}, now},
		"by the interval":       {Facts{Submitted: now - 30, Updated: now - 30}, "icr", Limits{2, 10}, now + 70},
		"overdue":               {Facts{Submitted: now - 200, Updated: now - 200}, "icr", Limits{2, 10}, now - 100},
		"by the cap":            {Facts{Submitted: now - 30, Updated: now - 30}, "icr", Limits{.5, 10}, now + 170},
		"by the least interval": {Facts{Submitted: now - 30, Updated: now - 30}, "icr", Limits{2, 300}, now + 270},
		"denied":                {Facts{Submitted: now - 5, Updated: now - 90, Flags: Denied}, "icr", Limits{2, 10}, now + 95},
		"paused":                {Facts{Submitted: now - 30, Updated: now - 30, Flags: Paused}, "icr", Limits{2, 10}, Far},
		"out":                   {Facts{Submitted: now - 30, Updated: now - 30, Out: 1}, "icr", Limits{2, 10}, Far},
		"by price, not at once": {Facts{Submitted: now, Updated: now}, "price", Limits{2, 10}, now + every/2},
	} {
		s := NewScheduler(now, must(t, c.strategy, Params{}), opt)
		if err := s.SetLimits(c.limits.Cap, c.limits.Least); err != nil {
			t.Fatal(err)
		}
		c.f.Est, c.f.Flags = Exactly(every), c.f.Flags|Known
		at := s.Add(c.f)
		s.Edit(at, func(f *Facts) { f.Out = c.f.Out })
		if got := s.Due(now, at); got != c.want && (c.want > now || got > now) {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestDueIsKept: an interval that has grown holds from the next submission on, and a slot is taken at the tick that was told.
func TestDueIsKept(t *testing.T) {
	const now, every = 1000, 100
	s := NewScheduler(now, must(t, "icr", Params{}), Options{Initial: []float64{every}, Cap: 2, MinTicks: 10, MaxOut: 1, Prior: Prior(every, 1)})
	at := s.Add(Facts{Submitted: now - 30, Updated: now - 30, Est: Exactly(every), Flags: Known})
	v := s.strategy.(*interval)
	v.begin(now - 10)
	v.t = []float64{5 * every}
	s.Rerank()
	if due := s.Due(now, at); due != now+70 {
		t.Errorf("due at %d, want %d", due, now+70)
	}
	for tick := Tick(now); tick < now+600; tick++ {
		if s.Next(tick, Load{Room: 1}, func(Slot) (Tick, bool) { return 0, true }) > 0 {
			if tick != now+70 {
				t.Errorf("taken at %d", tick)
			}
			return
		}
	}
	t.Error("never taken")
}
