package manager_test

import (
	"errors"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/channel/lease"
	"shoal/manager"
)

// TestKilledBeforeTheDeposit has a manager be killed that has written the generation of a task, and not left the task at the archive: the channel is crawled, and does not
// wait until the task's latest start a day later. A task that was left there may be with a peer, and is waited for.
func TestKilledBeforeTheDeposit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, func(c *manager.Config, s *swarm) { waitsLong(c); s.ignore = true })
	given := b.add(t, "https://given.example")[0]
	until(t, "a peer to take it", func() bool { return b.m.Overview().Accepted > 0 })
	b.swarm.mu.Lock()
	b.swarm.ignore = false
	b.swarm.mu.Unlock()
	id := b.add(t, "https://lost.example")[0]
	until(t, "an update", func() bool { r, _, _ := b.row(id); return r.Visits == 1 && !r.Out })
	b.stop()

	now, was := time.Now(), leaseOf(t, dir, id)
	gen, err := was.Next(now, now.Add(24*time.Hour), lease.Default())
	if err != nil {
		t.Fatal(err)
	}
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(dir+"/db"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refused, err := db.Issue(t.Context(), e, []channel.Issue{{ID: id, Gen: gen, Lease: was.Append(nil), At: now}})
	if err = errors.Join(err, db.Close()); err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}

	b = open(t, dir, func(c *manager.Config, _ *swarm) { waitsLong(c) })
	until(t, "a crawl of what was lost", func() bool { r, _, _ := b.row(id); return r.Visits == 2 })
	if r, events, ok := b.row(given); !ok || !r.Out || r.Visits != 0 {
		t.Errorf("of the task that a peer has: %+v, %+v", r, events)
	}
}

// TestTasksOfWhoIsBanned: a peer takes a task, does not begin it, and is no member any more, as when it is banned. The task goes to another one, and does not wait until its
// latest start.
func TestTasksOfWhoIsBanned(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(c *manager.Config, s *swarm) { waitsLong(c); s.ignore = true })
	id := b.add(t, "https://a.example")[0]
	until(t, "a peer to take it", func() bool { return b.m.Overview().Accepted > 0 })
	b.swarm.mu.Lock()
	b.swarm.ignore = false
	b.swarm.mu.Unlock()
	if err := b.m.TakeBackFrom(t.Context(), "another"); err != nil {
		t.Fatal(err)
	}
	looks(t, b)
	if r, _, _ := b.row(id); !r.Out || r.Awaited.IsZero() {
		t.Errorf("after another one's ban: %+v", r)
	}
	if err := b.m.TakeBackFrom(t.Context(), "peer"); err != nil {
		t.Fatal(err)
	}
	until(t, "a crawl", func() bool { r, _, _ := b.row(id); return r.Visits == 1 })
}
