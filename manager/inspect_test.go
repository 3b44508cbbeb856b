package manager_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/manager"
)

// olderReads is a database of which one read is answered as it would have been before.
type olderReads struct {
	*badgerdb.DB
	once atomic.Pointer[channel.Channel]
}

func (o *olderReads) Channel(ctx context.Context, id channel.ID) (channel.Channel, error) {
	if ch := o.once.Swap(nil); ch != nil {
		return *ch, nil
	}
	return o.DB.Channel(ctx, id)
}

// givenUp opens a manager that has given a channel up, and returns it as it was read before.
func givenUp(t *testing.T) (b *bench, o *olderReads, id channel.ID, before channel.Channel) {
	t.Helper()
	var s *swarm
	b = open(t, t.TempDir(), func(c *manager.Config, sw *swarm) {
		s = sw
		s.fail = "https://a.example"
		s.store = func(db *badgerdb.DB) manager.Store { o = &olderReads{DB: db}; return o }
		c.Failing = manager.Failing{Pause: 10 * time.Millisecond, MaxPause: 40 * time.Millisecond, Limit: 2}
	})
	id = b.add(t, "https://a.example")[0]
	before, err := b.db.Channel(t.Context(), id)
	if err != nil || before.State != channel.Active {
		t.Fatalf("%+v, %v", before, err)
	}
	until(t, "it is given up", func() bool { r, _, _ := b.row(id); return r.State == "given up" })
	until(t, "that is written", func() bool {
		ch, err := b.db.Channel(t.Context(), id)
		return err == nil && ch.State == channel.Marked
	})
	b.settled(t)
	s.mu.Lock()
	s.fail = ""
	s.mu.Unlock()
	return b, o, id, before
}

// TestCrawlNowOfAnOlderRead has a channel crawled that was given up, which is written just after it was read: it is active again.
func TestCrawlNowOfAnOlderRead(t *testing.T) {
	t.Parallel()
	b, o, id, before := givenUp(t)
	o.once.Store(&before)
	if err := b.m.CrawlNow(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	until(t, "it is active again", func() bool { r, _, _ := b.row(id); return r.State == "active" && r.Visits > 1 })
}

// TestEditOfOneGivenUpMeanwhile changes a channel's weight just before the database has that it was given up: it stays so.
func TestEditOfOneGivenUpMeanwhile(t *testing.T) {
	t.Parallel()
	b, _, _, before := givenUp(t)
	after := before
	after.Settings.Weight = 3
	if err := b.m.Edited(t.Context(), &before, &after); err != nil {
		t.Fatal(err)
	}
	// What was read before tells what the loop goes by.
	if in, err := b.m.Inspect(t.Context(), []channel.Channel{before}); err != nil || in[0].State != channel.Marked {
		t.Errorf("after an edit it is in state %d, %v; want given up", in[0].State, err)
	}
}

// TestInspectOfAnOlderRead looks at a channel as it was read before it was paused, once the pause is written: it is shown as paused.
func TestInspectOfAnOlderRead(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	id := b.add(t, "https://a.example")[0]
	before, err := b.db.Channel(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.m.Pause(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	until(t, "it is written", func() bool {
		ch, err := b.db.Channel(t.Context(), id)
		return err == nil && ch.State == channel.Paused
	})
	for range 20 { // the keeper forgets the state right after it is written
		in, err := b.m.Inspect(t.Context(), []channel.Channel{before})
		if err != nil || in[0].State != channel.Paused {
			t.Fatalf("it is shown in state %d, %v; want paused", in[0].State, err)
		}
	}
}
