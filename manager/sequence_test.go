package manager_test

import (
	"errors"
	"fmt"
	"testing"

	"shoal/manager"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// The share of new channels is set while running, shown, and kept over a restart; both kinds go on.
func TestShareWhileRunning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept := func(c *manager.Config, s *swarm) { c.KeptStrategy, c.Strategy, s.holds = true, "price", 3 }
	b := open(t, dir, kept)
	info := func() manager.StrategyInfo {
		t.Helper()
		i, err := b.m.Strategy(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	if q := info().Sequencers; q.By != "order" || q.Ratio != 0 {
		t.Errorf("before anything was set: %+v", q)
	}
	var hosts []string
	for i := range 30 {
		hosts = append(hosts, fmt.Sprintf("https://h%d.example", i))
	}
	b.add(t, hosts[:10]...)
	until(t, "old channels", func() bool { return b.m.Overview().Never == 0 })
	c := info().StrategyChoice
	c.NewShare = .25
	if err := b.m.UseStrategy(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	b.add(t, hosts[10:]...)
	before := info().Sequencers
	if before.By != "operator" || before.Ratio != .25 || before.Given != .25 {
		t.Errorf("after an operator set a quarter: %+v", before)
	}
	until(t, "new channels, and old ones meanwhile or after", func() bool {
		return b.m.Overview().Never == 0 && info().Sequencers.OldTaken > before.OldTaken
	})
	if q := info().Sequencers; q.NewTaken < 30 {
		t.Errorf("30 channels were new: %+v", q)
	}
	if _, err := b.d.SetStrategy(t.Context(), desk.StrategyAsk{Name: "icr"}); err != nil {
		t.Fatal(err)
	}
	c.NewShare = 1
	if err := b.m.UseStrategy(t.Context(), c); !errors.Is(err, manager.ErrAsk) {
		t.Errorf("a share of 1: %v", err)
	}
	b.stop()
	b = open(t, dir, kept)
	if i := info(); i.Name != "icr" || i.NewShare != .25 || i.Sequencers.By != "operator" {
		t.Errorf("after a restart: %+v", i)
	}
}

// Strategy cycle decides by itself once it has planned.
func TestShareByCycle(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(c *manager.Config, _ *swarm) {
		c.Strategy = "cycle"
		c.Params.PlanEvery, c.Params.Periods = 5, 3
		c.Options.Prior = recrawl.Prior(100, .5)
	})
	var hosts []string
	for i := range 20 {
		hosts = append(hosts, fmt.Sprintf("https://h%d.example", i))
	}
	b.add(t, hosts...)
	until(t, "a ratio of the strategy's", func() bool {
		i, err := b.m.Strategy(t.Context())
		return err == nil && i.Sequencers.By == "strategy"
	})
	until(t, "updates", func() bool { return b.m.Overview().Never == 0 })
}
