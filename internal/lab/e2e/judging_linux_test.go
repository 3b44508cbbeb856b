package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"shoal/manager/api"
	"shoal/manager/desk"
)

const (
	judgingEnv  = "SHOAL_JUDGING"          // quiet or full: TestJudging runs
	profilesEnv = "SHOAL_JUDGING_PROFILES" // a folder: a profile of each manager goes there, taken after the last turn
)

// The course of TestJudging.
const (
	judgingPages = 60                // of each host: one page of a task is audited
	judgingWarm  = 75 * time.Second  // until most pages were seen by three accounts
	judgingFull  = 150 * time.Second // and where all three networks have to share two processors
	judgingTurn  = 30 * time.Second
	judgingTurns = 4
)

// judgingLevels are how much the managers have to do. Quiet, waits between requests bound what peers make, and a manager sleeps nine tenths of the time. Full, the
// machine does.
var judgingLevels = map[string]siege{
	"quiet": {honest: 6, hosts: 120, gap: 10 * time.Millisecond},
	"full":  {honest: 12, hosts: 480, gap: time.Millisecond, threads: 20, bytes: 8000},
}

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
	level, warm := os.Getenv(judgingEnv), judgingWarm
	if level == "" {
		t.Skipf("takes four minutes of a quiet machine: set %s, or run make judging", judgingEnv)
	}
	as, known := judgingLevels[level]
	if !known {
		t.Fatalf("%s=%s: it is quiet or full", judgingEnv, level)
	}
	if level == "full" {
		warm = judgingFull
	}
	as.sizes = slices.Repeat([]int{judgingPages}, as.hosts)
	var all []*court
	for _, name := range []string{"off", "shadow", "enforce"} {
		s := as
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
	all[0].f.pause(warm)
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
	profiled(t, all)
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

// profiled writes a profile of half a minute of each manager, if it is wanted.
func profiled(t *testing.T, all []*court) {
	dir := os.Getenv(profilesEnv)
	if dir == "" {
		return
	}
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			b, err := c.f.page.read("/debug/pprof/profile?seconds=30")
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, c.name+".pprof"), b, 0o600)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
