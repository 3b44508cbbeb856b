package manager_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"shoal/manager"
)

// TestCrawlNowWhileAPeerHasNotBegun: a peer takes a task and is never heard of again. Where that is asked for it is shown until when it is waited for, and an operator who
// wants the channel crawled now is not refused: another peer gets it at once.
func TestCrawlNowWhileAPeerHasNotBegun(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(c *manager.Config, s *swarm) { waitsLong(c); s.ignore = true })
	id := b.add(t, "https://a.example")[0]
	until(t, "a peer to take it", func() bool {
		r, _, _ := b.row(id)
		return r.Out && b.m.Overview().Accepted > 0 && time.Until(r.Awaited) > 20*time.Minute
	})
	b.swarm.mu.Lock()
	b.swarm.ignore = false
	b.swarm.mu.Unlock()
	if err := b.m.CrawlNow(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	until(t, "a crawl", func() bool { r, _, _ := b.row(id); return r.Visits == 1 && !r.Out && r.Awaited.IsZero() })
	if n := b.m.Overview().Lapsed; n != 1 {
		t.Errorf("%d tasks came to nothing, want the one that was taken back", n)
	}
}

// TestCrawlNowWhileAPeerCrawls: what a peer has begun is not taken from it.
func TestCrawlNowWhileAPeerCrawls(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(c *manager.Config, s *swarm) { waitsLong(c); s.vanish = true })
	id := b.add(t, "https://a.example")[0]
	until(t, "a claim", func() bool { r, _, _ := b.row(id); return r.Out && r.Awaited.IsZero() && b.m.Overview().Accepted > 0 })
	if err := b.m.CrawlNow(t.Context(), id); !errors.Is(err, manager.ErrAsk) || !strings.Contains(err.Error(), "being crawled already") {
		t.Errorf("it answers %v", err)
	}
}
