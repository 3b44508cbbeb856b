package e2e

import (
	"os"
	"slices"
	"testing"
	"time"

	"shoal/manager/api"
	"shoal/manager/desk"
)

const judgingEnv = "SHOAL_JUDGING" // any value: TestJudging runs

// The course of TestJudging.
const (
	judgingPeers = 6
	judgingHosts = 120
	judgingPages = 60               // of each: one page of a task is audited
	judgingWarm  = 75 * time.Second // until most pages were seen by three accounts
	judgingTurn  = 30 * time.Second
	judgingTurns = 4
)

// court is one of the networks of TestJudging, and what its manager has done so far.
type court struct {
	name  string
	f     *fortress
	cpu   time.Duration
	pages uint64 // that the archive has taken in
	news  uint64 // of them, those that were new or changed
}

func (c *court) look() (cpu time.Duration, pages, news uint64) {
	now := *c
	var s struct {
		Pages     uint64 `json:"pages"`
		Unchanged uint64 `json:"unchanged"`
	}
	if err := c.f.page.get("/api/v1/archive/stats", &s); err != nil {
		c.f.t.Fatal(err)
	}
	c.cpu, c.pages, c.news = cpuOf(c.f.t, c.f.manager.cmd.Process.Pid), s.Pages+s.Unchanged, s.Pages
	return c.cpu - now.cpu, c.pages - now.pages, c.news - now.news
}

// TestJudging runs three networks beside each other, on the same ponds with as many peers, and measures the processor time of each whole manager for a page that its
// archive stores: where nothing is judged, in shadow, and where scores count. No peer lies.
func TestJudging(t *testing.T) {
	if os.Getenv(judgingEnv) == "" {
		t.Skipf("takes four minutes of a quiet machine: set %s, or run make judging", judgingEnv)
	}
	var all []*court
	for _, name := range []string{"off", "shadow", "enforce"} {
		s := siege{honest: judgingPeers, hosts: judgingHosts, gap: 10 * time.Millisecond, sizes: slices.Repeat([]int{judgingPages}, judgingHosts)}
		if name == "off" {
			s.flags = []string{"--unjudged"}
		}
		c := &court{name: name, f: openFortress(t, s)}
		all = append(all, c)
		var members []desk.Peer
		if err := c.f.page.get("/api/v1/peers", &members); err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			if err := c.f.page.post("/api/v1/peers/vouch", api.OnePeer{Peer: m.ID}); err != nil {
				t.Fatal(err)
			}
		}
		if name == "enforce" {
			c.f.shoal("trust", "set", "--enforce")
		}
	}
	all[0].f.pause(judgingWarm)
	for _, c := range all {
		c.look()
	}
	spent, pages, news := make([]time.Duration, len(all)), make([]uint64, len(all)), make([]uint64, len(all))
	for turn := range judgingTurns {
		all[0].f.pause(judgingTurn)
		for i, c := range all {
			cpu, n, changed := c.look()
			if n == 0 {
				t.Fatalf("%s: nothing was stored", c.name)
			}
			spent[i], pages[i], news[i] = spent[i]+cpu, pages[i]+n, news[i]+changed
			t.Logf("turn %d, %-7s %6d pages, %4.1f%% with content: %.1f us a page; load %s", turn, c.name, n, 100*float64(changed)/float64(n), float64(cpu.Microseconds())/float64(n), loadNow())
		}
	}
	off := spent[0].Seconds() / float64(pages[0])
	for i, c := range all {
		each := spent[i].Seconds() / float64(pages[i])
		var now desk.Trust
		if err := c.f.page.get("/api/v1/trust", &now); err != nil {
			t.Fatal(err)
		}
		if judged := now.Pages > 0; judged != (i > 0) || now.Suspended > 0 {
			t.Errorf("%s: %d pages judged, %d honest peers suspended", c.name, now.Pages, now.Suspended)
		}
		t.Logf("%-7s %6d pages, %4.1f%% with content: %.1f us a page, %+.1f%%; %.2f%% fetched again", c.name, pages[i], 100*float64(news[i])/float64(pages[i]), 1e6*each, 100*(each/off-1), 100*now.OfPagesShare)
	}
}
