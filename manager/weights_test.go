package manager_test

import (
	"maps"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/manager"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// A channel counts by its pages, or as the operator says, times its own importance, which may change while the manager runs and while it does not.
func TestWeights(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(_ *manager.Config, s *swarm) { s.large = "https://large.example" })
	ids := b.add(t, "https://large.example", "https://small.example")
	look := func(d *desk.Desk) map[channel.ID]float32 {
		t.Helper()
		out := map[channel.ID]float32{}
		if err := d.PlanChannels(t.Context(), func(c desk.PlanChannel) error {
			var f recrawl.Facts
			err := f.Restore(c.Facts)
			out[c.ID] = f.Weighed()
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	weights := func(large, small float32) func() bool {
		return func() bool {
			return maps.Equal(look(b.d), map[channel.ID]float32{ids[0]: large, ids[1]: small})
		}
	}
	until(t, "sizes in means of both", weights(9./5, 1./5))

	set := func(w recrawl.Weights) {
		t.Helper()
		if err := b.m.UseLimits(t.Context(), manager.Limits{Cap: 2, MinInterval: time.Second, Weights: w}); err != nil {
			t.Fatal(err)
		}
	}
	set(recrawl.EqualWeights)
	until(t, "equal weights", weights(1, 1))
	double := func(d *desk.Desk, id channel.ID) {
		t.Helper()
		if _, err := d.Edit(t.Context(), id, func(c *channel.Channel) error { c.Settings.Weight = max(c.Settings.Weight, 1) * 2; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	double(b.d, ids[1])
	until(t, "a small site that is important", weights(1, 2))
	set("")
	until(t, "pages again", weights(9./5, 2./5))
	b.stop()

	db, err := badgerdb.Open(t.Context(), badgerdb.Default(b.dir+"/db"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := desk.Open(t.Context(), desk.Config{Store: db})
	if err != nil {
		t.Fatal(err)
	}
	double(d, ids[1])
	if got := look(d); got[ids[0]] != 9./5 || got[ids[1]] != 4./5 {
		t.Errorf("a stopped manager's weights: %v", got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, b.dir, func(_ *manager.Config, s *swarm) { s.large = "https://large.example" })
	until(t, "the same after a restart", weights(9./5, 4./5))
}
