package manager_test

import (
	"errors"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
)

// TestCursorElsewhere has a database stand elsewhere in the archive's feed than its manager: as after a write that was made though nobody could tell for long, or
// a failover to a server without the last ones. The manager ends, and goes on when it is opened anew; it would take in nothing more, and hand nothing out.
func TestCursorElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, nil)
	id := b.add(t, "https://one.example")[0]
	crawled := func() {
		t.Helper()
		r, _, _ := b.row(id)
		until(t, "a crawl", func() bool { n, _, ok := b.row(id); return ok && n.Visits > r.Visits })
	}
	cursor := func() string {
		t.Helper()
		at, err := b.db.Cursor(t.Context(), manager.FeedName)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	pause := func(paused bool) {
		t.Helper()
		if err := b.d.Pause(t.Context(), id, paused); err != nil {
			t.Fatal(err)
		}
	}
	crawled()
	before := cursor()
	crawled()
	pause(true) // so that nothing more is taken in
	b.settled(t)
	if err := b.db.Apply(t.Context(), b.m.Epoch(), channel.Advance{Feed: manager.FeedName, From: cursor(), To: before, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	pause(false)
	select {
	case err := <-b.over:
		if !errors.Is(err, manager.ErrElsewhere) {
			t.Fatalf("it ended with %v, want %v", err, manager.ErrElsewhere)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it goes on, and nothing is taken in")
	}
	b.stop()
	b = open(t, dir, nil)
	crawled()
	crawled()
}
