package manager_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"slices"
	"testing"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/manager"
	"shoal/manager/desk"
	"shoal/manager/trust"
)

// asOfSeveral has a folder's database hold what each manager keeps for itself as one of several does, as after a migration of their network to a folder.
func asOfSeveral(t *testing.T, dir string) {
	t.Helper()
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(dir+"/db"))
	if err != nil {
		t.Fatal(err)
	}
	to, err := badgerdb.Open(t.Context(), badgerdb.Default(dir+"/moved"))
	if err != nil {
		t.Fatal(err)
	}
	var items iter.Seq2[channel.Item, error] = func(yield func(channel.Item, error) bool) {
		if err := db.Dump(context.Background(), func(it channel.Item) error {
			if it.State != nil && !manager.SharedState(it.State.Name) {
				it.State.Name = channel.OwnState("another", it.State.Name)
			}
			if !yield(it, nil) {
				return errors.New("enough")
			}
			return nil
		}); err != nil {
			yield(channel.Item{}, err)
		}
	}
	if err := errors.Join(to.Load(t.Context(), items), to.Close(), db.Close(), os.RemoveAll(dir+"/db"), os.Rename(dir+"/moved", dir+"/db")); err != nil {
		t.Fatal(err)
	}
}

// TestAfterSeveral has one manager go on with the database of managers that had shared it: a suspended peer stays suspended and can be pardoned, counters go on,
// and what happened to channels is told, also by the stopped manager's folder.
func TestAfterSeveral(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	v, b := suspending(t, dir, true)
	b.stop()
	before := b.m.Overview()
	asOfSeveral(t, dir)

	told := func(d *desk.Desk) bool {
		for id := channel.ID(1); id <= 12; id++ {
			if _, events, err := d.Row(t.Context(), id); err == nil && slices.ContainsFunc(events, func(e desk.Event) bool { return e.What == "updated" }) {
				return true
			}
		}
		return false
	}
	stopped, done := folder(t, dir)
	if !told(stopped) {
		t.Error("the folder of stopped managers tells nothing of what happened to their channels")
	}
	done()

	again := live(t, dir, v, true, 0)
	if p := again.standing(t, "mallory"); p.Standing != trust.Suspended {
		t.Errorf("a suspended peer is %v to the one manager that is left", p.Standing)
	}
	if _, err := again.m.Pardon(t.Context(), "mallory"); err != nil {
		t.Errorf("a pardon by the one manager that is left: %v", err)
	}
	if after := again.m.Overview(); after.Updates < before.Updates || !after.Since.Equal(before.Since) {
		t.Errorf("%d updates since %v; before %d since %v", after.Updates, after.Since, before.Updates, before.Since)
	}
}
