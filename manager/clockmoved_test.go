package manager_test

import (
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
)

// TestLongRestOutlivesTheClockAndARestart has a host that wants to be left alone for an hour, and the clock go forward by two hours. The database says it by the new clock, so that a manager that starts
// anew leaves the host alone, too.
func TestLongRestOutlivesTheClockAndARestart(t *testing.T) {
	t.Parallel()
	const name, rest, ahead = "https://a.example", time.Hour, 2 * time.Hour
	dir := t.TempDir()
	var forward atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(forward.Load())) }
	begin := func() *bench { return open(t, dir, func(c *manager.Config, _ *swarm) { c.Now = clock }) }
	b := begin()
	if err := b.db.UpdateHost(t.Context(), b.m.Epoch(), name, func(h *channel.Host) { h.NextVisit, h.Rest = clock().Add(rest), rest }); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b = begin()
	b.add(t, name)
	left := func() time.Duration {
		all, err := b.db.Hosts(t.Context(), []string{name})
		if err != nil {
			t.Fatal(err)
		}
		return all[0].NextVisit.Sub(clock())
	}
	until(t, "the loop to have looked at the clock", func() bool { return b.m.Alive(t.Context()) == nil })
	forward.Store(int64(ahead))
	until(t, "the record to say an hour by the new clock", func() bool { return left() > rest-time.Minute })
	if got := left(); got > rest {
		t.Errorf("the host is left alone for %v", got)
	}
}
