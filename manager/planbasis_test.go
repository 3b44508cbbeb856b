package manager_test

import (
	"testing"
	"time"

	"shoal/channel/badgerdb"
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
		basis, err := d.PlanBasis(t.Context(), time.Minute)
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
