package manager_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/manager"
	"shoal/manager/desk"
)

// What becomes of other sites' URLs, by the operator's choice. New channels come only when all others are served and peers idle, never
// more than the limit, and none of a host that is blocked.
func TestDiscover(t *testing.T) {
	t.Parallel()
	found := []string{"https://news.a.example/x", "https://news.a.example/y", "https://b-test.example/1", "https://c-test.example/1", "https://d-test.example/1", "https://blocked-test.example/",
		"http://10.1.2.3/", "http://localhost:8080/x", "https://c-test.example:6379/1"} // the last ones are nowhere that peers fetch from
	for _, c := range []struct {
		mode       manager.Discover
		most       int
		discovered int
		candidates int // left
	}{
		{manager.DiscoverOff, 10, 0, 0},
		{manager.DiscoverListed, 10, 0, 4}, // none of a blocked host
		{manager.DiscoverHost, 10, 1, 3},
		{manager.DiscoverAny, 2, 2, -1},
		{manager.DiscoverAny, 10, 4, -1},
	} {
		t.Run(fmt.Sprint(string(c.mode), " ", c.most), func(t *testing.T) {
			b := open(t, t.TempDir(), func(cfg *manager.Config, s *swarm) {
				cfg.Discover, cfg.DiscoverMost, cfg.Reach = c.mode, c.most, desk.PublicHost
				s.inter = found
			})
			if err := b.d.Block(t.Context(), "https://blocked-test.example", "asked to"); err != nil {
				t.Fatal(err)
			}
			b.add(t, "https://a.example")
			until(t, "channels", func() bool { return b.m.Overview().Discovered >= c.discovered && b.m.Overview().Updates > 0 })
			looks(t, b) // and no more come
			if o := b.m.Overview(); o.Discovered != c.discovered || o.Channels != 1+c.discovered {
				t.Errorf("%d discovered, %d channels, want %d and the one added", o.Discovered, o.Channels, c.discovered)
			}
			list, err := b.d.Candidates(t.Context(), 10)
			if err != nil || c.candidates >= 0 && list.Total != c.candidates {
				t.Errorf("%d candidates, %v; want %d", list.Total, err, c.candidates)
			}
			rows, total, err := b.d.Rows(t.Context(), desk.Find{Text: "test", N: 10})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				if r.Host == "https://blocked-test.example" {
					t.Error("a blocked host has got a channel")
				}
			}
			if want := c.discovered - 1; c.mode == manager.DiscoverAny && total < want { // all but news.a.example, perhaps
				t.Errorf("%d channels of other sites, want %d", total, want)
			}
		})
	}
}

// TestBadLinksStopNothing: a peer that tells of links that are no URLs, or of hosts that cannot be, stops neither what the manager learns of reports
// nor discovery.
func TestBadLinksStopNothing(t *testing.T) {
	t.Parallel()
	for mode, want := range map[manager.Discover]int{manager.DiscoverListed: 0, manager.DiscoverAny: 1} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := open(t, t.TempDir(), func(cfg *manager.Config, s *swarm) {
				cfg.Discover, cfg.DiscoverMost, cfg.Reach = mode, 10, desk.PublicHost
				s.inter = []string{"https://no-path.example", "https://xn--a-0hc.example/x", "https://UPPER.example/", "https://b.example/1"}
			})
			b.add(t, "https://a.example")
			until(t, "channels", func() bool { return b.m.Overview().Discovered >= want && b.m.Overview().Updates > 0 })
			left := map[manager.Discover]int{manager.DiscoverListed: 1}[mode]
			until(t, "candidates that are left", func() bool {
				list, err := b.d.Candidates(t.Context(), 10)
				return err == nil && list.Total == left
			})
		})
	}
}

// While peers have no room, nothing is admitted; once they have, it is, though it was found before a restart.
func TestNothingIsDiscoveredWithoutRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, func(cfg *manager.Config, s *swarm) { s.inter = []string{"https://b-test.example/1"} })
	b.add(t, "https://a.example")
	until(t, "an update", func() bool { return b.m.Overview().Updates > 0 })
	b.stop()
	b = open(t, dir, func(cfg *manager.Config, s *swarm) { cfg.Discover, s.holds = manager.DiscoverAny, 0 })
	looks(t, b)
	if o := b.m.Overview(); o.Discovered > 0 || o.Channels != 1 {
		t.Errorf("%d channels discovered by peers without room", o.Discovered)
	}
	b.stop()
	b = open(t, dir, func(cfg *manager.Config, s *swarm) { cfg.Discover = manager.DiscoverAny })
	until(t, "the host that was found", func() bool { return b.m.Overview().Channels == 2 })
}

// looks waits for some more looks at what was found.
func looks(t *testing.T, b *bench) {
	t.Helper()
	from := b.m.Overview().Now
	until(t, "ticks", func() bool { return b.m.Overview().Now.Sub(from) > 20*20*time.Millisecond })
}

// What is known of a channel before its first crawl is kept over a restart; a URL goes to the channel whose directory it lies in.
func TestLinksSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inter := []string{"https://w.example/d1/a", "https://w.example/d1/b", "https://w.example/d1/c", "https://w.example/elsewhere/"}
	b := open(t, dir, func(_ *manager.Config, s *swarm) { s.inter = inter })
	chs := []channel.Channel{}
	for _, d := range []string{"/d0/", "/d1/"} {
		chs = append(chs, channel.Channel{State: channel.Paused, Seeds: []string{"https://w.example" + d},
			Scope: channel.Scope{Kind: channel.Directory, Host: "https://w.example", Dirs: []string{d}}})
	}
	ids, _, err := b.m.AddChannels(t.Context(), chs)
	if err != nil {
		t.Fatal(err)
	}
	a := b.add(t, "https://a.example")[0]
	until(t, "an update", func() bool { return b.m.Overview().Updates > 0 })
	if err := b.d.Pause(t.Context(), a, true); err != nil {
		t.Fatal(err)
	}
	b.settled(t) // else the next manager takes in a report of this one's, which counts its links once more
	ch, err := b.d.Channel(t.Context(), ids[1])
	if err != nil || !slices.Equal(ch.Inter, inter[:3]) {
		t.Errorf("pending: %q, %v", ch.Inter, err)
	}
	b.stop()
	b = open(t, dir, nil)
	for i, want := range []int{1, 4} {
		if got, err := b.m.Links(t.Context(), ids[i]); err != nil || got != want {
			t.Errorf("channel %d: %d links after a restart, want %d (%v)", ids[i], got, want, err)
		}
	}
	if r, _, _ := b.row(ids[0]); r.State != "paused" || r.Visits > 0 {
		t.Errorf("a channel that was added paused is %s, %d visits", r.State, r.Visits)
	}
}

// TestLinksFoundBeforeATaskStartsAreKept: a link that another crawl finds while a task waits at its peer is not of that task, and goes with the next one.
func TestLinksFoundBeforeATaskStartsAreKept(t *testing.T) {
	t.Parallel()
	begin, next := make(chan struct{}), make(chan struct{})
	var first atomic.Bool // a task that was claimed too late is handed out again
	free := sync.OnceFunc(func() { close(next) })
	b := open(t, t.TempDir(), func(_ *manager.Config, s *swarm) {
		s.inter = []string{"https://w.example/d0/late"}
		s.amid = func(h channel.Header) bool {
			if h.Host == "https://w.example" {
				if first.CompareAndSwap(false, true) {
					<-begin
				} else {
					<-next
				}
			}
			return false
		}
	})
	defer free()
	w := b.add(t, "https://w.example")[0]
	pending := func() []string {
		ch, err := b.d.Channel(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		return ch.Inter
	}
	until(t, "the task of the first", func() bool { b.swarm.mu.Lock(); defer b.swarm.mu.Unlock(); return b.swarm.placed[w] > 0 })
	a := b.add(t, "https://a.example")[0]
	until(t, "the link", func() bool { return len(pending()) > 0 })
	if _, err := b.d.Edit(t.Context(), a, func(ch *channel.Channel) error { ch.State = channel.Paused; return nil }); err != nil {
		t.Fatal(err)
	}
	until(t, "the other's last crawl", func() bool {
		b.swarm.mu.Lock()
		defer b.swarm.mu.Unlock()
		return b.swarm.running["https://a.example"] == 0
	})
	looks(t, b)
	close(begin)
	until(t, "the first crawl", func() bool { r, _, ok := b.row(w); return ok && r.Visits == 1 })
	if got := pending(); !slices.Equal(got, b.swarm.inter) {
		t.Errorf("%q is left for the next task, want %q", got, b.swarm.inter)
	}
	free()
	until(t, "the second crawl to take the link in", func() bool { return len(pending()) == 0 })
}

// findings writes links to hosts without channels into the database of a manager that does not run.
func findings(t *testing.T, dir string, urls ...string) {
	t.Helper()
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(dir+"/db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for some := range slices.Chunk(urls, 1000) {
		a := channel.Advance{At: time.Now()}
		for _, u := range some {
			a.Found = append(a.Found, channel.Found{URL: u, From: 1})
		}
		if err := db.Apply(t.Context(), e, a); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManyForeignHostsHideNoListedSites: further hosts of listed sites become channels though any number of hosts of other sites were found more often.
func TestManyForeignHostsHideNoListedSites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	urls := []string{"https://news.a.example/x"}
	for i := range 600 {
		urls = append(urls, fmt.Sprintf("https://h%d-test.example/1", i), fmt.Sprintf("https://h%d-test.example/2", i))
	}
	findings(t, dir, urls...)
	b := open(t, dir, func(cfg *manager.Config, _ *swarm) {
		cfg.Discover, cfg.DiscoverMost, cfg.Reach = manager.DiscoverHost, 10, desk.PublicHost
	})
	b.add(t, "https://a.example")
	until(t, "the site's further host", func() bool { return b.m.Overview().Discovered == 1 })
}

// TestAFoundHostThatIsAddedIsFoundNoMore: a host that crawls have found is no candidate once it has a channel, whether it got that while its candidate was
// dropped or, as by an older version, not.
func TestAFoundHostThatIsAddedIsFoundNoMore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	findings(t, dir, "https://b.example/1", "https://b.example/2", "https://c.example/news/1", "https://d.example/1")
	b := open(t, dir, nil)
	imported(t, b.d, "https://b.example/", "https://c.example/news/")
	list, err := b.d.Candidates(t.Context(), 10)
	if err != nil || list.Total != 1 || len(list.Candidates) != 1 || list.Candidates[0].Host != "https://d.example" {
		t.Errorf("found: %+v, %v", list, err)
	}
	b.stop()

	findings(t, dir, "https://b.example/3", "https://b.example/4", "https://b.example/5", "https://c.example/news/3", "https://c.example/news/4") // left by an older version
	b = open(t, dir, nil)
	list, err = b.d.Candidates(t.Context(), 1)
	if err != nil || list.Total != 1 || len(list.Candidates) != 1 || list.Candidates[0].Host != "https://d.example" {
		t.Errorf("found: %+v, %v", list, err)
	}
}

// TestAHostOfWhichADirectoryWasChosenIsNotAdmitted: discovery makes no channel of a host that has one of a directory, though older versions have noted it.
func TestAHostOfWhichADirectoryWasChosenIsNotAdmitted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	findings(t, dir, "https://w.example/elsewhere/1", "https://new.example/1")
	b := open(t, dir, func(cfg *manager.Config, s *swarm) { s.holds = 0 })
	b.add(t, "https://w.example")
	b.stop()
	b = open(t, dir, func(cfg *manager.Config, _ *swarm) {
		cfg.Discover, cfg.DiscoverMost, cfg.Reach = manager.DiscoverAny, 10, desk.PublicHost
	})
	until(t, "the other host's channel", func() bool { return b.m.Overview().Discovered > 0 })
	until(t, "no candidate", func() bool { list, err := b.d.Candidates(t.Context(), 10); return err == nil && list.Total == 0 })
	if o := b.m.Overview(); o.Discovered != 1 || o.Channels != 2 {
		t.Errorf("%d discovered, %d channels", o.Discovered, o.Channels)
	}
}
