package desk

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shoal/manager"
	"shoal/recrawl"
)

// A slip in a limit would stop nearly all recrawling, and every screen would stay green.
func TestLimitsThatStopCrawling(t *testing.T) {
	t.Parallel()
	f := func(x float64) *float64 { return &x }
	d := func(x time.Duration) *Seconds { s := Seconds(x); return &s }
	for _, c := range []struct {
		ask LimitsAsk
		ok  bool
	}{
		{LimitsAsk{Cap: f(.1)}, false}, {LimitsAsk{Cap: f(.49)}, false}, {LimitsAsk{Cap: f(.5)}, true}, {LimitsAsk{Cap: f(0)}, true}, {LimitsAsk{Cap: f(3)}, true},
		{LimitsAsk{MinInterval: d(9000 * time.Hour)}, false}, {LimitsAsk{MinInterval: d(30 * 24 * time.Hour)}, true}, {LimitsAsk{MinInterval: d(0)}, true},
		{LimitsAsk{MinInterval: d(time.Millisecond)}, false}, {LimitsAsk{MinInterval: d(-5 * time.Minute)}, false}, {LimitsAsk{MinInterval: d(time.Minute)}, true},
		{LimitsAsk{MinInterval: d(20_000 * time.Hour)}, false},
	} {
		ask := StrategyAsk{Limits: &c.ask}
		if _, _, err := ask.fill(manager.StrategyInfo{Tick: time.Minute, Limits: manager.Limits{Weights: recrawl.PageWeights}}); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrAsk) {
			t.Errorf("%+v: %v", c.ask, err)
		} else if c.ask.MinInterval != nil && err != nil && !strings.Contains(err.Error(), "want 1m0s to 8784h0m0s (a year), or 0 for a tick") {
			t.Errorf("%+v: the bounds are not named: %v", c.ask, err)
		}
	}
}
