package manager_test

import (
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
)

// What is out of a host that is blocked, or of a channel that is removed, is called back: its peer is refused at its next word with the archive;
// and nothing else of the host is crawled until its lease has ended.
func TestBlockAndRemoveCallBack(t *testing.T) {
	t.Parallel()
	const term = 10 * time.Minute
	amid, done := make(chan string, 10), make(chan struct{})
	release := sync.OnceFunc(func() { close(done) })
	b := open(t, t.TempDir(), func(c *manager.Config, s *swarm) {
		waitsLong(c)
		c.Terms.Term, s.recalls = term, true
		first := map[string]bool{} // hosts whose first crawl is held up
		s.amid = func(h channel.Header) bool {
			s.mu.Lock()
			again := first[h.Host]
			first[h.Host] = true
			s.mu.Unlock()
			if again {
				return false
			}
			amid <- h.Host
			<-done
			return true
		}
	})
	t.Cleanup(release) // or its crawls would not end
	d := b.d
	in := imported(t, d, "https://a.example/", "https://b.example/")
	for range 2 {
		select {
		case <-amid:
		case <-time.After(time.Minute):
			t.Fatal("not crawled")
		}
	}
	began := time.Now().Truncate(time.Millisecond) // as exactly as the database keeps times
	if err := d.Block(t.Context(), "a.example", "asked to"); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(t.Context(), in.Last); err != nil {
		t.Fatal(err)
	}
	until(t, "the blocked channel to be out no more", func() bool { r, _, _ := b.row(in.First); return !r.Out })
	if err := d.Block(t.Context(), "a.example", ""); err != nil {
		t.Fatal(err)
	}
	next := imported(t, d, "https://b.example/")
	until(t, "both hosts to be left alone", func() bool {
		for _, h := range []string{"https://a.example", "https://b.example"} {
			rows, err := d.Hosts(t.Context(), h, false, 1)
			if err != nil || len(rows) != 1 || rows[0].NextVisit.Before(began.Add(term)) {
				return false
			}
		}
		return true
	})
	release() // now they send their chunks, which must be refused
	b.swarm.crawls.Wait()
	looks(t, b)
	b.swarm.mu.Lock()
	defer b.swarm.mu.Unlock()
	if b.swarm.overlap > 0 || b.swarm.placed[in.First] != 1 || b.swarm.placed[next.First] != 0 {
		t.Errorf("placed %v, %d beside another; want each host crawled once and then left alone", b.swarm.placed, b.swarm.overlap)
	}
	if r, _, ok := b.row(in.First); !ok || r.Visits > 0 {
		t.Errorf("what was called back counts: %+v", r)
	}
}
