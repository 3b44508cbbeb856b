package peer

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"shoal/peer/queue"
)

// TestPageCostIsKept has a peer learn what a page costs, end without notice and start anew: it begins with what it knew. What it cannot read, or cannot be so, it learns anew.
func TestPageCostIsKept(t *testing.T) {
	dir, cfg := t.TempDir(), queue.Default()
	begin := func() (*pageCost, queue.Config, error) { return rememberPageCost(dir, cfg) }
	kept := func(c *pageCost, now time.Time, is time.Duration) time.Duration {
		t.Helper()
		if err := c.keep(now, is); err != nil {
			t.Fatal(err)
		}
		_, got, err := begin()
		if err != nil {
			t.Fatal(err)
		}
		return got.Service
	}
	c, got, err := begin()
	if err != nil || got != cfg {
		t.Fatalf("a first start begins with %+v, %v; want the default", got, err)
	}
	now := time.Now()
	for _, step := range []struct{ after, is, want time.Duration }{
		{0, 40 * time.Millisecond, 40 * time.Millisecond},
		{time.Second, 80 * time.Millisecond, 40 * time.Millisecond}, // too soon after that
		{pageCostEvery, 80 * time.Millisecond, 80 * time.Millisecond},
		{pageCostEvery, 85 * time.Millisecond, 80 * time.Millisecond}, // hardly another
		{pageCostEvery, time.Hour, queue.MostPage},
		{pageCostEvery, 0, leastPageCost},
	} {
		now = now.Add(step.after)
		if got := kept(c, now, step.is); got != step.want {
			t.Errorf("after %v, %v: begins with %v, want %v", step.after, step.is, got, step.want)
		}
	}
	file := filepath.Join(dir, pageCostFile)
	for text, damaged := range map[string]bool{"": true, "{": true, `{"page_s":"x"}`: true, `{"page_s":-1}`: false, `{"page_s":1e300}`: false, `{}`: false} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, got, err := begin()
		if got != cfg || (err != nil) != damaged {
			t.Errorf("%q: begins with %+v, %v", text, got, err)
		}
		if got := kept(c, now, time.Second); got != time.Second {
			t.Errorf("%q: keeps %v behind it", text, got)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := c.keep(now.Add(time.Hour), time.Minute); err == nil {
		t.Error("kept in a folder that is gone")
	}
}
