package e2e

import (
	"strings"
	"testing"
	"time"
)

// honestLoss is the share of their work that the defences may cost honest peers.
const honestLoss = .02

// TestHonest lets honest peers alone crawl good, slow, odd and large hosts, with every defence on, and counts what the
// defences take from them: claims that were ended, chunks that were refused, tasks that lapsed, members under suspicion.
// Whatever the hosts do, that is at most a fiftieth of the updates.
func TestHonest(t *testing.T) {
	t.Parallel()
	var sizes []int
	for i := range 80 {
		sizes = append(sizes, 1+i%siegePages)
	}
	sizes[3], sizes[17] = 300, 900 // more pages than a task may fetch: they take several
	f := openFortress(t, siege{honest: 4, gap: 200 * time.Millisecond, sizes: sizes, odd: .4,
		lease: "5m"}) // so that a busy machine takes no task from its peer
	count := func(name string) (n int64) {
		by := metric(t, f.page, name)
		if len(by) == 0 {
			t.Fatalf("the manager has no metric %s", name)
		}
		for _, v := range by {
			n += v
		}
		return n
	}
	const enough = 150
	f.manager.within(6*time.Minute, "has enough updates", func() bool {
		time.Sleep(time.Second)
		return f.page.overview().Updates >= enough
	})
	updates := f.page.overview().Updates
	ended := int64(strings.Count(f.manager.said(), "a claim was ended"))
	lost := ended
	t.Logf("%d updates, %d pages stored", updates, count("shoal_archive_pages_total"))
	t.Logf("%d claims ended", ended)
	for _, name := range []string{"shoal_archive_chunks_rejected_total", "shoal_manager_tasks_lapsed_total", "shoal_manager_members_suspect"} {
		n := count(name)
		t.Logf("%s %d", name, n)
		lost += n
	}
	pages := count("shoal_archive_pages_total") + count("shoal_archive_unchanged_total")
	dropped := count("shoal_archive_pages_foreign_total") + count("shoal_archive_pages_mismatched_total")
	t.Logf("%d pages dropped of %d", dropped, pages)
	if share := float64(lost) / float64(updates); share > honestLoss {
		t.Errorf("the defences cost honest peers %d of %d updates: %.1f%%, at most %.0f%%\n%s", lost, updates, 100*share, 100*honestLoss, f.manager.said())
	}
	if share := float64(dropped) / float64(pages); share > honestLoss {
		t.Errorf("the defences dropped %d of %d pages of honest peers: %.1f%%, at most %.0f%%", dropped, pages, 100*share, 100*honestLoss)
	}
}
