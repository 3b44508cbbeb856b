package manager_test

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/manager"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// storedFacts are what a stopped manager's database knows of a channel for the scheduler.
func storedFacts(t *testing.T, dir string, id channel.ID) (f recrawl.Facts) {
	t.Helper()
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(dir+"/db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ch, err := db.Channel(t.Context(), id)
	if err == nil {
		err = f.Restore(ch.Learnt.EstimatorBlob)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestResumedWhileStopped resumes a channel, and takes it out of its group, while no manager runs: the next one crawls it, and by the group of its own rate. It was left
// as it had been when the manager ended, for ever, and shown as active.
func TestResumedWhileStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, nil)
	id := b.add(t, "https://a.example")[0]
	until(t, "a crawl", func() bool { r, _, _ := b.row(id); return r.Visits > 0 })
	if err := b.d.Pause(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	grouped := func(group int) func(*channel.Channel) error {
		return func(ch *channel.Channel) error { ch.Settings.Group = group; return nil }
	}
	if _, err := b.d.Edit(t.Context(), id, grouped(4)); err != nil {
		t.Fatal(err)
	}
	b.settled(t)
	b.stop()
	if f := storedFacts(t, dir, id); f.Flags&recrawl.Paused == 0 || f.Flags&recrawl.Pinned == 0 {
		t.Fatalf("its facts are not those of a channel that is paused, and in a group: %+v", f)
	}

	d, done := folder(t, dir)
	if err := d.Pause(t.Context(), id, false); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Edit(t.Context(), id, grouped(0)); err != nil {
		t.Fatal(err)
	}
	was, _, err := d.Row(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	done()

	b = open(t, dir, nil)
	until(t, "a crawl after it was resumed", func() bool { r, _, _ := b.row(id); return r.Visits > was.Visits && r.Group == 1 })
}

// TestImportanceOutlivesARestart: what an operator says of a channel's importance holds after a restart, though it was not crawled meanwhile.
func TestImportanceOutlivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, func(c *manager.Config, _ *swarm) { waitsLong(c) })
	id := b.add(t, "https://a.example")[0]
	until(t, "a crawl", func() bool { r, _, _ := b.row(id); return r.Visits > 0 && !r.Out })
	b.stop()
	was := storedFacts(t, dir, id).Weight
	b = open(t, dir, func(c *manager.Config, _ *swarm) { waitsLong(c) })
	if _, err := b.d.Edit(t.Context(), id, func(ch *channel.Channel) error { ch.Settings.Weight = 5; return nil }); err != nil {
		t.Fatal(err)
	}
	b.stop()
	if got := storedFacts(t, dir, id).Weight; got != 5*was {
		t.Errorf("its weight is %v after the restart, and was %v before it was made five times as important", got, was)
	}
}

// TestWeightsOutliveARestart: a channel counts by the weights that an operator has chosen after a restart too, before it is crawled again.
func TestWeightsOutliveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, func(c *manager.Config, s *swarm) { waitsLong(c); s.large = "https://large.example" })
	ids := b.add(t, "https://large.example", "https://small.example")
	until(t, "crawls of both", func() bool { return b.m.Overview().Updates == 2 })
	b.settled(t)
	if err := b.m.UseLimits(t.Context(), manager.Limits{Cap: 2, MinInterval: time.Second, Weights: recrawl.EqualWeights}); err != nil {
		t.Fatal(err)
	}
	b.stop()
	for _, id := range ids {
		if f := storedFacts(t, dir, id); f.Weighed() != 1 {
			t.Errorf("channel %d counts as %v, want 1 as all", id, f.Weighed())
		}
	}
}

// TestMendedWhileStopped: a channel whose crawls failed, and that an operator edits or resumes while no manager runs, is crawled at the next start. It waited until the pause
// after its last failure was over, whereas a running manager tries at once.
func TestMendedWhileStopped(t *testing.T) {
	for what, mend := range map[string]func(*desk.Desk, channel.ID) error{
		"edited": func(d *desk.Desk, id channel.ID) error {
			_, err := d.Edit(t.Context(), id, func(ch *channel.Channel) error { ch.Settings.Pages = 9; return nil })
			return err
		},
		"resumed": func(d *desk.Desk, id channel.ID) error { return d.Pause(t.Context(), id, false) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := open(t, dir, func(_ *manager.Config, s *swarm) { s.fail = "https://a.example" })
			id := b.add(t, "https://a.example")[0]
			until(t, "a crawl that fails", func() bool { r, _, _ := b.row(id); return r.Failed > 0 && time.Until(r.Due) > 5*time.Minute })
			b.stop()
			d, done := folder(t, dir)
			if err := mend(d, id); err != nil {
				t.Fatal(err)
			}
			done()
			b = open(t, dir, nil)
			until(t, "a crawl", func() bool { r, _, _ := b.row(id); return r.Visits > 0 })
		})
	}
}
