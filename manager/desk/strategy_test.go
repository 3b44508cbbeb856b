package desk

import (
	"errors"
	"testing"
	"time"

	"shoal/manager"
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
	} {
		ask := StrategyAsk{Limits: &c.ask}
		if _, _, err := ask.fill(manager.StrategyInfo{}); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrAsk) {
			t.Errorf("%+v: %v", c.ask, err)
		}
	}
}
