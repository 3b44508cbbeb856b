package manager_test

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/manager"
)

// A host that a report of an earlier build froze until the year 9999 is crawled again after a restart, and a reset cures one that waits or is blocked.
func TestFrozenHostThaws(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	brief := func(c *manager.Config, _ *swarm) { c.Terms.Term = 2 * time.Second }
	b := open(t, dir, brief)
	ids := b.add(t, "https://a.example", "https://b.example")
	visits := func(i int) func() int {
		return func() int { r, _, _ := b.row(ids[i]); return r.Visits }
	}
	first, second := visits(0), visits(1)
	until(t, "first crawls", func() bool { return first() > 0 && second() > 0 })
	pause := func(paused bool) {
		t.Helper()
		for _, id := range ids {
			if err := b.d.Pause(t.Context(), id, paused); err != nil {
				t.Fatal(err)
			}
		}
	}
	pause(true)
	b.settled(t) // else the next manager takes in a report of this one's
	b.stop()

	freeze := func(name string, change func(h *channel.Host)) {
		t.Helper()
		db, err := badgerdb.Open(t.Context(), badgerdb.Default(dir+"/db"))
		if err != nil {
			t.Fatal(err)
		}
		epoch, err := db.Take(t.Context())
		if err == nil {
			err = db.UpdateHost(t.Context(), epoch, name, change)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	freeze("https://a.example", func(h *channel.Host) { h.NextVisit = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) })
	freeze("https://b.example", func(h *channel.Host) {
		h.NextVisit, h.CrawlDelay, h.Blocked = time.Now().Add(12*time.Hour), 9*365*24*time.Hour, "peers report: a member said so"
	})
	b = open(t, dir, brief)
	before := second()
	was := first()
	pause(false)
	until(t, "a crawl of the host that was frozen", func() bool { return first() > was })
	if got := second(); got != before {
		t.Errorf("a blocked host was crawled %d times", got-before)
	}
	if n, stays, err := b.d.ResetHost(t.Context(), "b.example"); err != nil || n != 1 || stays != "" {
		t.Fatalf("%d hosts reset, %q, %v", n, stays, err)
	}
	until(t, "a crawl of the host that was reset", func() bool { return second() > before })
	if _, _, err := b.d.ResetHost(t.Context(), "nowhere.example"); err == nil {
		t.Error("a host of which nothing is known was reset")
	}
}
