package manager_test

import (
	"strings"
	"testing"

	"shoal/manager"
)

// A strategy that plans gets its plans, beside the loop, and channels are crawled by them.
func TestPlans(t *testing.T) {
	for _, name := range []string{"optimal", "cycle"} {
		t.Run(name, func(t *testing.T) {
			b := open(t, t.TempDir(), func(c *manager.Config, _ *swarm) {
				c.Strategy, c.Params.PlanEvery, c.Params.Periods = name, 8, 2
			})
			ids := b.add(t, "https://a.example", "https://b.example")
			until(t, "updates", func() bool { return b.m.Overview().Updates >= 4 })
			if name == "optimal" {
				until(t, "a plan", func() bool { r, _, _ := b.m.Channel(ids[0]); return strings.Contains(r.Model, "planned every") })
			}
			n := b.m.Overview().Updates
			until(t, "updates by plan", func() bool { return b.m.Overview().Updates > n+4 })
			if err := b.m.SetStrategy(t.Context(), "fixed"); err != nil { // perhaps in the middle of a plan
				t.Fatal(err)
			}
			until(t, "the strategy shows", func() bool { return b.m.Overview().Strategy == "fixed" })
		})
	}
}
