package peer

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/wire/uplink"
	"shoal/peer/crawl"
	"shoal/peer/queue"
)

// fetched counts the pages that agents fetched, by URL.
type fetched struct {
	mu sync.Mutex
	n  map[string]int
}

func (f *fetched) on(c *Config) {
	c.OnVisit = func(_ string, v crawl.Visit) {
		if strings.HasSuffix(v.URL, "/robots.txt") {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.n[v.URL]++
	}
}

func (f *fetched) all() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.n)
}

// left names the files that an agent has of tasks that were claimed.
func left(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "tasks", "*"+claimedSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestArchiveAwayOverStops stops an agent again and again while the archive is away, once with room for one of its tasks only. What it
// fetched stays with it until the archive is back: then it is stored, fetched by nobody again, and the tasks are released; what has become
// another's meanwhile is dropped.
func TestArchiveAwayOverStops(t *testing.T) {
	world := plain(40)
	world.Sizes = []int{40, 40, 40} // none ends with what the valve lets through, however the crawls share it
	s := open(t, world)
	dir, seen := t.TempDir(), &fetched{n: map[string]int{}}
	stops := func(threads, waiting int, change func(*Config)) (*Agent, func() error) {
		return s.agent(dir, func(c *Config) {
			c.Threads, c.Queue, c.Grace, c.Checkpoint = threads, waiting, 100*time.Millisecond, time.Hour
			seen.on(c)
			if change != nil {
				change(c)
			}
		})
	}
	v := newValve(30)
	_, stop := stops(3, 1, v.on)
	ids := []channel.ID{s.place(0), s.place(1), s.place(2)}
	s.until("three crawls in their middle", func() bool { v.mu.Lock(); defer v.mu.Unlock(); return v.waiting == 3 })
	s.setAway(true)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	first, files := seen.all(), left(t, dir)
	if len(files) != 3 || len(first) < 27 || len(first) > 29 { // of 30 answers up to three are robots.txt
		t.Fatalf("%d tasks and %d pages after the first stop", len(files), len(first))
	}
	on := 0
	for i, id := range ids {
		on += spooled(t, dir, channel.Header{Channel: id, Gen: channel.Gen(i + 1)})
	}
	if on != len(first) {
		t.Fatalf("%d pages on disk of %d", on, len(first))
	}

	a, stop := stops(1, -1, nil)
	s.until("one task that waits for the archive", func() bool { st := a.Status(); return len(st.Running) == 1 && st.Running[0].Away })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if now := left(t, dir); !slices.Equal(now, files) {
		t.Fatalf("tasks %v after the second stop, of %v", now, files)
	}

	s.store.mu.Lock() // the first one's lease has lapsed, and it was handed to another
	lost := s.store.at(ids[0])
	lost.fence.Tick(time.Now().Add(2 * s.store.terms.Term))
	s.gen++
	lost.fence.Deposit(s.gen)
	if st := lost.fence.Claim(time.Now(), lease.PeerOf("another"), s.gen, time.Now().Add(time.Minute), s.store.terms); st.Reply.Status != uplink.Granted {
		t.Errorf("the other's claim: %v", st.Reply.Status)
	}
	s.store.mu.Unlock()

	a, _ = stops(1, 1, nil)
	a.SetMode(queue.Drain, time.Time{})
	s.setAway(false)
	s.until("all are delivered", func() bool { return a.tasks.empty() && len(left(t, dir)) == 0 })
	s.until("two released, one lost", func() bool { c := a.Status().Counters; return c.Stopped == 2 && c.Lost == 1 })
	if pages, err := filepath.Glob(filepath.Join(dir, "spool", "*")); err != nil || len(pages) > 0 {
		t.Errorf("files of tasks that are over: %v, %v", pages, err)
	}
	if !maps.Equal(seen.all(), first) {
		t.Errorf("%d pages fetched, %d before", len(seen.all()), len(first))
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, id := range ids {
		c := s.store.at(id)
		if id == ids[0] {
			if len(c.pages) != 0 || c.released != 0 {
				t.Errorf("a fenced task: %d pages, released %d times", len(c.pages), c.released)
			}
			continue
		}
		if c.released != 1 || len(c.reports) != 0 {
			t.Errorf("channel %d: released %d times, %d reports", id, c.released, len(c.reports))
		}
		for url, n := range c.pages {
			if n != 1 || first[url] != 1 {
				t.Errorf("%s: stored %d times, fetched %d times", url, n, first[url])
			}
			delete(first, url)
		}
	}
	for url := range first {
		if host := s.world.Hosts()[0].Name; !strings.HasPrefix(url, "http://"+host+"/") {
			t.Errorf("%s is not stored", url)
		}
	}
}

// TestArchiveAwayThenBack stops an agent twice while the archive is away, until its lease has lapsed. The third run must bring
// what was fetched, and fetch nothing by the old lease: a peer may have another channel of the host. Handed out anew, the crawl
// comes to its end without a page that is fetched twice.
func TestArchiveAwayThenBack(t *testing.T) {
	s := open(t, plain(40))
	dir, seen := t.TempDir(), &fetched{n: map[string]int{}}
	v := newValve(10)
	change := func(c *Config) {
		c.Grace, c.Checkpoint = 100*time.Millisecond, time.Hour
		seen.on(c)
	}
	_, stop := s.agent(dir, func(c *Config) { change(c); v.on(c) })
	id := s.place(0)
	s.until("a crawl in its middle", v.blocked)
	s.setAway(true)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	a, stop := s.agent(dir, change)
	s.until("the task waits for the archive", func() bool { st := a.Status(); return len(st.Running) == 1 && st.Running[0].Away })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s.store.mu.Lock()
	s.store.ahead = 2 * s.store.terms.Term
	s.store.at(id).fence.Tick(s.store.now())
	s.store.mu.Unlock()
	before := seen.all()
	s.setAway(false)
	s.agent(dir, change)
	s.until("the task is given back", s.look(id, func(c *stored) bool { return c.released == 1 }))
	if now := seen.all(); !maps.Equal(now, before) {
		t.Errorf("%d pages fetched, and %d before the lease had lapsed", len(now), len(before))
	}
	s.until("what was fetched is stored", s.look(id, func(c *stored) bool { return len(c.pages) == len(before) }))
	s.place(0)
	s.until("the report", s.look(id, reported))
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	c := s.store.at(id)
	if want := s.world.Hosts()[0].Pages; len(c.pages) != want || c.reports[0].Pages != want {
		t.Errorf("%d pages stored, %d reported, of %d", len(c.pages), c.reports[0].Pages, want)
	}
	for url, n := range seen.all() {
		if n != 1 || c.pages[url] != 1 {
			t.Errorf("%s: fetched %d times, stored %d times", url, n, c.pages[url])
		}
	}
}

// TestForgetTells leaves while something is not delivered.
func TestForgetTells(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"membership": "m", "node.key": "k", "tasks/01.claimed": "t", "tasks/02": "t", "spool/pages-1-1-0": "12345", "spool/todo-1": "u"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if lost, err := Forget(dir); err != nil || lost != (Undelivered{Tasks: 1, Bytes: 5}) {
		t.Errorf("%+v, %v", lost, err)
	}
	for name, want := range map[string]bool{"node.key": true, "membership": false, "tasks/01.claimed": false, "tasks/02": false, "spool/pages-1-1-0": false, "spool/todo-1": false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if lost, err := Forget(dir); err != nil || lost != (Undelivered{}) {
		t.Errorf("again: %+v, %v", lost, err)
	}
}
