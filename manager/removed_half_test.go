package manager_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/desk"
)

// TestRemovalCutShort has a channel that a peer crawls be called back for its removal, and its manager end before the database has heard: the next one finds no lease of it at the archive, and hands it out.
func TestRemovalCutShort(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), sleepers{newVillage(t, "a", "b"), make(chan slept, 1)}
	begin := func() *bench {
		return open(t, dir, func(c *manager.Config, w *swarm) {
			s.swarm, w.members = w, s
			c.Bar, c.MinPeersWait, c.Terms.Term = s.bar, 0, time.Second
		}, s)
	}
	b := begin()
	id := b.add(t, "https://a.example")[0]
	<-s.slept
	until(t, "the claim", func() bool { r, _, _ := b.row(id); return r.Out && r.Awaited.IsZero() })
	ch, err := b.db.Channel(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.m.Forget(t.Context(), &ch); err != nil {
		t.Fatal(err)
	}
	if err := b.a.Recall(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // that the manager hears of it, and knows no such channel
	b.stop()
	s.mu.Lock()
	s.closed = false
	s.mu.Unlock()
	b = begin()
	select {
	case task := <-s.slept:
		if task.Channel != id {
			t.Errorf("channel %d was handed out", task.Channel)
		}
	case <-time.After(30 * time.Second):
		t.Error("it is not handed out")
	}
}

// keeps is a database that removes nothing, as on a full disk.
type keeps struct{ manager.Store }

var errKeeps = errors.New("no space left")

func (keeps) Remove(context.Context, channel.Epoch, channel.ID) error { return errKeeps }

// TestRemovalThatFails has the database fail to remove a channel that a peer crawls. The operator is told, and the channel is crawled again by the manager that runs.
func TestRemovalThatFails(t *testing.T) {
	t.Parallel()
	s := sleepers{newVillage(t, "a", "b"), make(chan slept, 2)}
	b := open(t, t.TempDir(), func(c *manager.Config, w *swarm) {
		s.swarm, w.members = w, s
		c.Bar, c.MinPeersWait, c.Terms.Term = s.bar, 0, time.Second
	}, s)
	id := b.add(t, "https://a.example")[0]
	<-s.slept
	until(t, "the claim", func() bool { r, _, _ := b.row(id); return r.Out && r.Awaited.IsZero() })
	d, err := desk.Open(t.Context(), desk.Config{Store: keeps{b.db}, Running: b.m, Archive: b.a, Members: b.swarm.members})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(t.Context(), id); !errors.Is(err, errKeeps) {
		t.Errorf("the operator is told %v", err)
	}
	if _, _, ok := b.row(id); !ok {
		t.Error("the manager lists it no more")
	}
	s.mu.Lock()
	s.closed = false
	s.mu.Unlock()
	select {
	case task := <-s.slept:
		if task.Channel != id {
			t.Errorf("channel %d was handed out", task.Channel)
		}
	case <-time.After(30 * time.Second):
		t.Error("it is not handed out again")
	}
}
