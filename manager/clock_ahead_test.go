package manager_test

import (
	"testing"
	"time"

	"shoal/manager"
)

// TestClockThatWasAhead has a manager crawl by a clock that is four minutes ahead, and start anew by one that is right: its channels do not wait until that time comes.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, nil) // which is when its ticks begin
	id := b.add(t, "https://one.example")[0]
	b.stop()
	b = open(t, dir, func(c *manager.Config, _ *swarm) { c.Now = func() time.Time { return time.Now().Add(4 * time.Minute) } })
	r, _, _ := b.row(id)
	until(t, "a crawl", func() bool { n, _, _ := b.row(id); return n.Visits > r.Visits })
	pause := func(paused bool) {
		if err := b.d.Pause(t.Context(), id, paused); err != nil {
			t.Fatal(err)
		}
	}
	pause(true) // so that no task is out, which may be claimed as long as its header says
	b.settled(t)
	b.stop()
	b = open(t, dir, nil)
	pause(false)
	r, _, _ = b.row(id)
	until(t, "another one", func() bool { n, _, ok := b.row(id); return ok && n.Visits > r.Visits })
}
