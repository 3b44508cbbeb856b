package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"shoal/manager/api"
	"shoal/manager/desk"
)

const (
	judgingEnv  = "SHOAL_JUDGING"          // quiet or full: TestJudging runs
	judgedEnv   = "SHOAL_JUDGING_PAGES"    // of each host, with as many pages in all; empty: judgingPages
	profilesEnv = "SHOAL_JUDGING_PROFILES" // a folder: a profile of each manager goes there, of the last turn
)

// The course of TestJudging.
const (
	judgingPages = 60                // of each host, unless another number is wanted: one page of a task is audited
	judgingWarm  = 75 * time.Second  // until most pages were seen by three accounts
	judgingFull  = 270 * time.Second // and where all four networks have to share two processors
	judgingTurn  = 30 * time.Second
	judgingTurns = 4
)

// judgingLevels are how much the managers have to do. Quiet, waits between requests bound what peers make, and a manager sleeps nine tenths of the time. Full, the
// machine does.
var judgingLevels = map[string]siege{
	"quiet": {honest: 6, hosts: 120, gap: 10 * time.Millisecond},
	"full":  {honest: 12, hosts: 480, gap: time.Millisecond, threads: 20, bytes: 8000},
}

// judgingSmall is how many hosts of one page the network "small" has beside, each of which is crawled once a turn and whenever the strategy will.
var judgingSmall = map[string]int{"quiet": 120, "full": 240}

// work is what a manager has done.
type work struct {
	cpu   time.Duration
	pages uint64 // that the archive has taken in
	news  uint64 // of them, those that were new or changed
	tasks uint64 // of hosts of one page, whose pages are not among those above
}

func (w work) add(o work) work {
	return work{w.cpu + o.cpu, w.pages + o.pages, w.news + o.news, w.tasks + o.tasks}
}

func (w work) less(o work) work {
	return work{w.cpu - o.cpu, w.pages - o.pages, w.news - o.news, w.tasks - o.tasks}
}

// each is the processor time of a page in microseconds.
func (w work) each() float64 { return float64(w.cpu.Microseconds()) / float64(w.pages) }

func (w work) share() float64 { return float64(w.news) / float64(w.pages) }

// court is one of the networks of TestJudging.
type court struct {
	name  string
	f     *fortress
	small map[string]bool // its hosts of one page
	rows  []desk.Row      // of them, as look saw them
	until work            // so far
	turns work            // in the turns
}

// look is what the manager has done since it was called last.
func (c *court) look() work {
	was := c.until
	var s struct {
		Pages     uint64 `json:"pages"`
		Unchanged uint64 `json:"unchanged"`
	}
	if err := c.f.page.get("/api/v1/archive/stats", &s); err != nil {
		c.f.t.Fatal(err)
	}
	c.until = work{cpu: cpuOf(c.f.t, c.f.manager.cmd.Process.Pid), pages: s.Pages + s.Unchanged, news: s.Pages}
	if len(c.small) > 0 {
		c.rows = c.list()
		for _, r := range c.rows {
			c.until.tasks += uint64(r.Visits)
		}
		c.until.pages -= c.until.tasks
	}
	return c.until.less(was)
}

// list reads the channels of its hosts of one page.
func (c *court) list() (of []desk.Row) {
	for list := (api.Rows{}); ; {
		list.Channels = nil
		if err := c.f.page.get(fmt.Sprintf("/api/v1/channels?n=500&from=%d", list.From), &list); err != nil {
			c.f.t.Fatal(err)
		}
		for _, r := range list.Channels {
			if c.small[r.Host] {
				of = append(of, r)
			}
		}
		if list.From += len(list.Channels); len(list.Channels) == 0 {
			return of
		}
	}
}

// drive has its hosts of one page crawled for a span, one after the other: each once, if the manager answers soon enough.
func (c *court) drive(span time.Duration) {
	end := time.Now().Add(span)
	for _, r := range c.rows {
		if !time.Now().Before(end) {
			return
		}
		_ = c.f.page.post(fmt.Sprintf("/api/v1/channels/%d/crawl-now", r.ID), struct{}{}) // refused: it is being crawled
		c.f.pause(min(span/time.Duration(len(c.rows)), time.Until(end)))
	}
	c.f.pause(time.Until(end))
}

// courtRules are the networks' names, and the managers' flags.
var courtRules = []struct {
	name  string
	flags []string
}{{"off", []string{"--unjudged"}}, {"small", []string{"--unjudged"}}, {"shadow", nil}, {"enforce", nil}}

// openCourt opens one of the networks. All its members are vouched for.
func openCourt(t *testing.T, name string, s siege, small int) *court {
	t.Helper()
	if name == "small" {
		s.hosts, s.sizes = s.hosts+small, slices.Concat(s.sizes, slices.Repeat([]int{1}, small))
	}
	c := &court{name: name, f: openFortress(t, s), small: map[string]bool{}}
	w := c.f.pond.World()
	for i, h := range w.Hosts() {
		if h.Pages == 1 {
			c.small[w.Origin(i)] = true
		}
	}
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
	return c
}

// TestJudging runs four networks beside each other, on the same ponds with as many peers, and measures the processor time of each whole manager for a page that its
// archive stores: where nothing is judged, in shadow, and where scores count. No peer lies. In the fourth nothing is judged either, and hosts of one page are crawled
// beside: what such a task takes is the least that an audit can, since an audit is a task.
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
	if n := os.Getenv(judgedEnv); n != "" {
		pages, err := strconv.Atoi(n)
		if err != nil || pages < 2 {
			t.Fatalf("%s=%s: want how many pages a host has, 2 at least", judgedEnv, n)
		}
		as.hosts = max(as.hosts*judgingPages/pages, 1)
		as.sizes = slices.Repeat([]int{pages}, as.hosts)
	} else {
		as.sizes = slices.Repeat([]int{judgingPages}, as.hosts)
	}
	var all []*court
	for _, r := range courtRules {
		s := as
		s.flags = append(r.flags, "--unasked")
		all = append(all, openCourt(t, r.name, s, judgingSmall[level]))
	}
	off, small := all[0], all[1]
	off.f.pause(warm)
	for _, c := range all {
		c.look()
	}
	written := func() {}
	for turn := range judgingTurns {
		if turn == judgingTurns-1 {
			written = profiled(t, all)
		}
		small.drive(judgingTurn)
		for _, c := range all {
			d := c.look()
			if d.pages == 0 {
				t.Fatalf("%s: nothing was stored", c.name)
			}
			c.turns = c.turns.add(d)
			t.Logf("turn %d, %-7s %6d pages, %4.1f%% with content, %4d tasks of one page: %.1f us a page; load %s", turn, c.name, d.pages, 100*d.share(), d.tasks, d.each(), loadNow())
		}
	}
	written()
	each := off.turns.each()
	task := (float64(small.turns.cpu.Microseconds()) - each*float64(small.turns.pages)) / float64(small.turns.tasks)
	t.Logf("a task of one page, %d of them: %.0f us", small.turns.tasks, task)
	for _, c := range []*court{off, all[2], all[3]} {
		var now desk.Trust
		if err := c.f.page.get("/api/v1/trust", &now); err != nil {
			t.Fatal(err)
		}
		if judged := now.Pages > 0; judged != (c != off) || now.Suspended > 0 {
			t.Errorf("%s: %d pages judged, %d honest peers suspended", c.name, now.Pages, now.Suspended)
		}
		t.Logf("%-7s %6d pages, %4.1f%% with content: %.1f us a page, %+.1f%%; %.2f%% fetched again, which as tasks of one page take %.1f%%",
			c.name, c.turns.pages, 100*c.turns.share(), c.turns.each(), 100*(c.turns.each()/each-1), 100*now.OfPagesShare, 100*now.OfPagesShare*task/each)
	}
}

// profiled takes a profile of each manager over the next turn, if it is wanted, and returns what waits until they are written.
func profiled(t *testing.T, all []*court) (written func()) {
	dir := os.Getenv(profilesEnv)
	if dir == "" {
		return func() {}
	}
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() {
			b, err := c.f.page.read(fmt.Sprintf("/debug/pprof/profile?seconds=%.0f", judgingTurn.Seconds()))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, c.name+".pprof"), b, 0o600)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	return wg.Wait
}
