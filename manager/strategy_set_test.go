package manager_test

import (
	"errors"
	"testing"
	"time"

	"shoal/manager"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// TestNextIsWhenItIsTaken: the time that is told for a channel's next crawl is that at which the limits allow it, where the strategy would have it sooner.
func TestNextIsWhenItIsTaken(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	id := b.add(t, "https://a.example")[0]
	until(t, "an update", func() bool { r, _, _ := b.row(id); return r.Visits > 0 })
	most := desk.Seconds(6 * time.Hour)
	if _, err := b.d.SetStrategy(t.Context(), desk.StrategyAsk{Limits: &desk.LimitsAsk{MinInterval: &most}}); err != nil {
		t.Fatal(err)
	}
	b.settled(t)
	r, _, _ := b.row(id)
	if left := time.Until(r.Due); left < 5*time.Hour || left > 7*time.Hour {
		t.Errorf("next in %v, want six hours", left)
	}
}

// TestRefusedStrategyChangesNothing asks for limits beside a strategy that cannot be: neither is in force then, and neither is kept.
func TestRefusedStrategyChangesNothing(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	was, err := b.m.Strategy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one, most := 1., desk.Seconds(6*time.Hour)
	for what, ask := range map[string]desk.StrategyAsk{
		"a parameter of no strategy":   {Name: was.Name, Params: recrawl.Params{Delta: 2}, Limits: &desk.LimitsAsk{Cap: &one}},
		"a parameter of another one":   {Name: "price", Params: recrawl.Params{Delta: .3}, Limits: &desk.LimitsAsk{Cap: &one}},
		"a strategy that there is not": {Name: "prise", Limits: &desk.LimitsAsk{Cap: &one}},
		"all room for new channels":    {NewShare: &one, Limits: &desk.LimitsAsk{MinInterval: &most}},
		"weights that there are not":   {Name: "price", Limits: &desk.LimitsAsk{Weights: "heavy"}},
	} {
		if _, err := b.d.SetStrategy(t.Context(), ask); err == nil {
			t.Errorf("%s is in force", what)
		}
		now, err := b.m.Strategy(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if now.Limits != was.Limits || now.StrategyChoice != was.StrategyChoice {
			t.Errorf("%s: %+v, %+v are in force", what, now.Limits, now.StrategyChoice)
		}
		if kept, err := b.db.State(t.Context(), "manager/limits"); err != nil || kept != nil {
			t.Errorf("%s: %s is kept, %v", what, kept, err)
		}
	}
	if _, err := b.d.SetStrategy(t.Context(), desk.StrategyAsk{Name: "price", Limits: &desk.LimitsAsk{Cap: &one}}); err != nil {
		t.Error(err)
	}
}

// TestMinimumIntervalIsToldAsItHolds asks for an interval that is no whole number of ticks: what an operator is told of is the next longer one that is, which is what holds.
func TestMinimumIntervalIsToldAsItHolds(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(c *manager.Config, _ *swarm) { c.Tick = time.Minute })
	asked, year := desk.Seconds(90*time.Second), desk.Seconds(366*24*time.Hour)
	got, err := b.d.SetStrategy(t.Context(), desk.StrategyAsk{Limits: &desk.LimitsAsk{MinInterval: &asked}})
	if want := 2 * time.Minute; err != nil || got.Limits.MinInterval.Duration() != want {
		t.Errorf("asked for %v, told %v, %v: want %v", asked.Duration(), got.Limits.MinInterval.Duration(), err, want)
	}
	got, err = b.d.SetStrategy(t.Context(), desk.StrategyAsk{Limits: &desk.LimitsAsk{MinInterval: &year}})
	if err != nil || got.Limits.MinInterval != year {
		t.Errorf("asked for a year, told %v, %v", got.Limits.MinInterval.Duration(), err)
	}
}

// TestLongIntervalThatWasKept starts on limits that an earlier version took although they are longer than a year: they are a year.
func TestLongIntervalThatWasKept(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	epoch, dir := b.m.Epoch(), b.dir
	if err := b.db.PutState(t.Context(), epoch, "manager/limits", []byte(`{"cap":2,"min_interval_ns":4611686018427387904}`)); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b = open(t, dir, func(c *manager.Config, _ *swarm) { c.Tick = time.Minute })
	if i, err := b.m.Strategy(t.Context()); err != nil || i.Limits.MinInterval != 366*24*time.Hour {
		t.Errorf("the minimum interval is %v, %v", i.Limits.MinInterval, err)
	}
}

// TestShortIntervalThatWasKept starts on limits that an earlier version took although they are shorter than a tick: they are a tick, and go on to hold.
func TestShortIntervalThatWasKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, nil)
	least := b.m.Overview().Unit
	if err := b.m.UseLimits(t.Context(), manager.Limits{Cap: 2, MinInterval: least / 2}); !errors.Is(err, manager.ErrAsk) {
		t.Errorf("half a tick is taken: %v", err)
	}
	if err := b.m.UseLimits(t.Context(), manager.Limits{Cap: 2, MinInterval: least}); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b = open(t, dir, func(c *manager.Config, _ *swarm) { c.Tick = 4 * least })
	if i, err := b.m.Strategy(t.Context()); err != nil || i.Limits.MinInterval != 4*least {
		t.Errorf("the minimum interval is %v, %v: want %v", i.Limits.MinInterval, err, 4*least)
	}
}
