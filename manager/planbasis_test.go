package manager_test

import (
	"testing"
	"time"

	"shoal/channel/badgerdb"
	"shoal/manager"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// A plan's basis is had from a running manager as from a stopped one's database, channels' histories with it.
func TestPlanBasis(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	b.add(t, "https://a.example", "https://b.example")
	look := func(d *desk.Desk) desk.PlanBasis {
		t.Helper()
		basis, err := d.PlanBasis(t.Context(), desk.StoppedPace{Tick: time.Minute})
		if err != nil || basis.Now < 1 || !(basis.Cap > 0) {
			t.Errorf("%+v, %v", basis, err)
		}
		seen := 0
		err = d.PlanChannels(t.Context(), func(c desk.PlanChannel) error {
			seen++
			var f recrawl.Facts
			if err := f.Restore(c.Facts); err != nil || c.Name == "" || !(f.Est.Rate() > 0) {
				t.Errorf("%+v, %+v, %v", c, f, err)
			}
			if f.Updated > 0 && len(c.History) == 0 {
				t.Errorf("%s was visited and has no history", c.Name)
			}
			return nil
		})
		if err != nil || seen != 2 {
			t.Errorf("%d channels, %v", seen, err)
		}
		return basis
	}
	until(t, "histories of both", func() bool {
		n := 0
		err := b.d.PlanChannels(t.Context(), func(c desk.PlanChannel) error {
			if len(c.History) > 0 {
				n++
			}
			return nil
		})
		return err == nil && n == 2
	})
	if got := look(b.d); got.Tick.Duration() != 20*time.Millisecond {
		t.Errorf("a running manager's tick: %v", got.Tick)
	}
	b.stop()
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(b.dir+"/db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	d, err := desk.Open(t.Context(), desk.Config{Store: db})
	if err != nil {
		t.Fatal(err)
	}
	if got := look(d); got.Tick.Duration() != time.Minute {
		t.Errorf("a stopped manager's tick: %v", got.Tick)
	}
}

// TestPaceOfAStoppedManager: a stopped manager of a pond is planned for by the pond's ticks, and by how often it plans and crawls; what an operator set goes before.
func TestPaceOfAStoppedManager(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	ask := func(with manager.PlanBasis) manager.PlanBasis {
		t.Helper()
		p, err := manager.StoppedPlanBasis(t.Context(), b.db, with, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	pond := manager.PlanBasis{Step: time.Second, Every: 40, MinTicks: 2}
	if p := ask(pond); p.Step != time.Second || p.Every != 40 || p.MinTicks != 2 {
		t.Errorf("a pond's manager is planned for by %+v", p)
	}
	if p := ask(manager.PlanBasis{Step: time.Minute}); p.Every != recrawl.PlanDay || p.MinTicks != recrawl.DefaultOptions().MinTicks {
		t.Errorf("a manager of the Web is planned for by %+v", p)
	}
	if err := b.m.UseLimits(t.Context(), manager.Limits{Cap: 2, MinInterval: 7 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if p := ask(pond); p.MinTicks != 7 {
		t.Errorf("between two crawls are %d ticks, want the 7 that were set", p.MinTicks)
	}
}
