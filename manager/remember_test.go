package manager_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"shoal/channel/badgerdb"
	"shoal/manager"
	"shoal/manager/desk"
)

// A restart keeps what people are shown: counters with the time that they began, plots, and what happened to a channel.
func TestRestartKeepsWhatIsShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, nil)
	ids := b.add(t, "https://a.example", "https://b.example")
	until(t, "updates, and plots of more than one sample", func() bool {
		o := b.d.Overview()
		return o.Updates >= 4 && len(o.History) >= 2 && o.Errors["timeout"] >= 4
	})
	b.stop()
	before := b.d.Overview()
	stopped, done := folder(t, dir)
	if _, events, err := stopped.Row(t.Context(), ids[0]); err != nil || !slices.ContainsFunc(events, func(e desk.Event) bool { return e.What == "updated" }) {
		t.Errorf("a stopped manager's folder tells of %+v, %v", events, err)
	}
	done()
	b = open(t, dir, func(c *manager.Config, s *swarm) { s.refuse = true })
	after := b.d.Overview()
	if after.Updates < before.Updates || after.Submitted < before.Submitted || after.Pages < before.Pages || after.Errors["timeout"] < before.Errors["timeout"] {
		t.Errorf("counters were %+v, are %+v", before, after)
	}
	if !after.Since.Equal(before.Since) || !after.Started.After(before.Since) {
		t.Errorf("counted since %v, before the restart since %v; started %v", after.Since, before.Since, after.Started)
	}
	if len(after.History) <= len(before.History)-1 || !after.History[0].At.Equal(before.History[0].At) {
		t.Errorf("of %d samples %d are left", len(before.History), len(after.History))
	}
	_, events, ok := b.row(ids[0])
	if !ok || !slices.ContainsFunc(events, func(e desk.Event) bool { return e.What == "updated" && e.At.Before(after.Started) }) {
		t.Errorf("what happened before the restart is forgotten: %+v", events)
	}
}

// A list can be narrowed to a state and ordered by it, at a running manager and at a stopped one's database alike.
func TestListByState(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(c *manager.Config, s *swarm) {
		s.fail = "https://failing.example"
		s.recalls = true
		c.Failing = manager.Failing{Pause: time.Hour, MaxPause: time.Hour, Limit: 100}
	})
	ids := b.add(t, "https://well.example", "https://paused.example", "https://failing.example", "https://blocked.example")
	until(t, "a crawl of each", func() bool {
		r, _, _ := b.row(ids[2])
		w, _, _ := b.row(ids[0])
		return r.Failed > 0 && w.Visits > 0
	})
	if err := b.d.Pause(t.Context(), ids[1], true); err != nil {
		t.Fatal(err)
	}
	if err := b.d.Block(t.Context(), "blocked.example", "asked to"); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{desk.Failing: "https://failing.example", desk.Blocked: "https://blocked.example", desk.Paused: "https://paused.example", desk.Active: "https://well.example"}
	look := func(d *desk.Desk, when string) {
		t.Helper()
		for state, host := range want {
			rows, total, err := d.Rows(t.Context(), desk.Find{State: state, N: 10})
			if err != nil || total != 1 || len(rows) != 1 || rows[0].Host != host || rows[0].State != state {
				t.Errorf("%s, %s: %d %+v, %v", when, state, total, rows, err)
			}
			if state == desk.Failing && (len(rows) == 0 || rows[0].Reason == "") || state == desk.Blocked && (len(rows) == 0 || rows[0].Reason != "asked to") {
				t.Errorf("%s: no reason with %+v", when, rows)
			}
		}
		rows, _, err := d.Rows(t.Context(), desk.Find{Sort: "state", N: 10})
		var order []string
		for _, r := range rows {
			order = append(order, r.State)
		}
		if err != nil || !slices.Equal(order, []string{desk.Failing, desk.Blocked, desk.Paused, desk.Active}) {
			t.Errorf("%s: in the order %v, %v", when, order, err)
		}
		tally, err := d.Tally(t.Context())
		if err != nil || !maps.Equal(tally, desk.Tally{desk.Failing: 1, desk.Blocked: 1, desk.Paused: 1, desk.Active: 1}) {
			t.Errorf("%s: counted %v, %v", when, tally, err)
		}
		if _, _, err := d.Rows(t.Context(), desk.Find{State: "unwell", N: 1}); err == nil {
			t.Errorf("%s: a state that is none", when)
		}
	}
	until(t, "the failed crawl and the pause to be written", func() bool {
		ch, err := b.db.Channel(t.Context(), ids[2])
		return err == nil && ch.Learnt.Failed > 0
	})
	look(b.d, "running")
	found := b.d.Banner(t.Context())
	if !slices.ContainsFunc(found, func(f desk.Finding) bool {
		return f.Level == desk.Warning && f.What == "1 channel is failing: tried again by and by."
	}) {
		t.Errorf("the banner says %+v", found)
	}
	d, err := desk.Open(t.Context(), desk.Config{Store: b.db})
	if err != nil {
		t.Fatal(err)
	}
	look(d, "stopped")
}

// folder is the desk of a stopped manager's folder, until done is called.
func folder(t *testing.T, dir string) (d *desk.Desk, done func()) {
	t.Helper()
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(dir+"/db"))
	if err != nil {
		t.Fatal(err)
	}
	if d, err = desk.Open(t.Context(), desk.Config{Store: db}); err != nil {
		t.Fatal(err)
	}
	return d, func() {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
