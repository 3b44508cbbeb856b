package trust

import "testing"

// TestNewcomersAloneWork has a network of newcomers let scores count, with an arbiter that checks them: they have the tasks, also after a restart.
func TestNewcomersAloneWork(t *testing.T) {
	w := newStage(t, 1)
	const arbiter = 99
	for _, when := range []string{"at first", "after a restart"} {
		w.m.JoinArbiter(arbiter)
		w.m.Join(1, 1, 1)
		for range 5 {
			if !w.m.MayTake(1, false) {
				t.Fatalf("%s a newcomer may have no task where there are no others", when)
			}
			w.m.Handed(1)
		}
		if !w.m.MayCheck(arbiter, 1) {
			t.Errorf("%s the arbiter may not check", when)
		}
		w.deliver(t, 1, 9, []string{"apple"})
		if g := w.page(9, 0); g.Shown() == nil {
			t.Errorf("%s what a newcomer delivers is not shown where there are no others: %+v", when, g.Cur)
		}
		w.restart(t)
	}
	w.m.JoinArbiter(arbiter)
	w.m.Join(2, 2, 2)
	w.m.Vouch(2)
	if w.m.MayTake(1, false) {
		t.Error("beside an established peer a newcomer has more than its share")
	}
}
