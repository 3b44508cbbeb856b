package manager_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/manager"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// A strategy that plans gets its plans, beside the loop, and channels are crawled by them.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"optimal", "cycle"} {
		t.Run(name, func(t *testing.T) {
			b := open(t, t.TempDir(), func(c *manager.Config, _ *swarm) {
				c.Strategy, c.Params.PlanEvery, c.Params.Periods = name, 8, 2
			})
			ids := b.add(t, "https://a.example", "https://b.example")
			until(t, "updates", func() bool { return b.m.Overview().Updates >= 4 })
			if name == "optimal" {
				until(t, "a plan", func() bool { r, _, _ := b.row(ids[0]); return strings.Contains(r.Model, "planned every") })
			}
			n := b.m.Overview().Updates
			until(t, "updates by plan", func() bool { return b.m.Overview().Updates > n+4 })
			if _, err := b.d.SetStrategy(t.Context(), desk.StrategyAsk{Name: "fixed"}); err != nil { // perhaps in the middle of a plan
				t.Fatal(err)
			}
			until(t, "the strategy shows", func() bool { return b.m.Overview().Strategy == "fixed" })
		})
	}
}

// What a channel's visits have taught outlives a restart: the model is not chosen anew from nothing.
func TestHistoriesOutliveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	optimal := func(c *manager.Config, _ *swarm) { c.Strategy, c.Params.PlanEvery = "optimal", 1440 }
	b := open(t, dir, optimal)
	ids := b.add(t, "https://a.example")
	until(t, "a visit", func() bool { r, _, _ := b.row(ids[0]); return r.Visits > 0 })
	b.stop()
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(dir+"/db"))
	if err != nil {
		t.Fatal(err)
	}
	ch, err := db.Channel(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	for k := range 40 {
		ch.Learnt.History = recrawl.AppendVisit(ch.Learnt.History, 300, k%3 == 0)
	}
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = db.Apply(t.Context(), e, channel.Advance{At: time.Now(), Edits: []channel.Edit{{ID: ids[0], Gen: ch.Learnt.Gen, Learnt: &ch.Learnt}}})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	b = open(t, dir, optimal)
	until(t, "a model by the stored history", func() bool {
		r, _, _ := b.row(ids[0])
		return r.Model != "" && !strings.Contains(r.Model, "too few visits")
	})
}
