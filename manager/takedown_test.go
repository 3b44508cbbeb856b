package manager_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/desk"
)

// A takedown reaches archive, feed, queue and peers, on all ports of the host, while its crawls run; and what comes later.
func TestTakedown(t *testing.T) {
	t.Parallel()
	hosts, err := channel.ParseHosts("z.example")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	begun, purged := make(chan string, 100), make(chan struct{})
	done := false // a second crawl of the host has begun: its first one is stored
	b := open(t, dir, func(cfg *manager.Config, s *swarm) {
		s.inter = []string{"https://z.example:8943/found", "https://other.example/found"}
		first := map[string]bool{}
		s.amid = func(h channel.Header) bool {
			if !hosts.Has(h.Host) {
				return false
			}
			s.mu.Lock()
			stored := first[h.Host]
			first[h.Host] = true
			s.mu.Unlock()
			if !stored {
				return false
			}
			begun <- h.Host
			<-purged
			return true
		}
	})
	t.Cleanup(func() {
		if !done {
			close(purged) // or its crawls would not end
		}
	})
	d := b.d
	imported(t, d, "https://z.example/", "http://z.example:8080/", "https://zz.example/", "https://z.example.org/")
	seen := map[string]bool{}
	for len(seen) < 2 { // both crawls are between claim and chunk
		select {
		case host := <-begun:
			seen[host] = true
		case <-time.After(time.Minute):
			t.Fatalf("crawled are only %v", seen)
		}
	}
	until(t, "a page of another host", func() bool { return pageOf(t, b, "https://zz.example/") == nil })
	if list, err := d.Candidates(t.Context(), 10); err != nil || list.Total != 2 {
		t.Errorf("found: %+v, %v", list, err)
	}
	out, err := d.Purge(t.Context(), "z.example", "court order")
	if err != nil || out.Channels != 2 || out.Pages != 2 {
		t.Errorf("purged %+v, %v", out, err)
	}
	close(purged) // now they send their chunks, which must be refused
	done = true
	for _, u := range []string{"https://z.example/", "http://z.example:8080/"} {
		until(t, u+" is no page any more", func() bool { return errors.Is(pageOf(t, b, u), archive.ErrNotFound) })
	}
	b.swarm.mu.Lock()
	placed := b.swarm.placed[1]
	b.swarm.mu.Unlock()

	// What comes later is blocked too: on a port that was unknown, by import or by links.
	in := imported(t, d, "http://z.example:8999/", "https://z.example:8443/dir/", "https://z.example.net/")
	if in.Added != 3 || in.Blocked != 2 {
		t.Errorf("imported %+v", in)
	}
	until(t, "updates of others", func() bool { r, _, _ := b.row(in.Last); return r.Visits > 1 })
	for id := in.First; id < in.Last; id++ {
		if r, _, ok := b.row(id); !ok || r.State != "blocked" || r.Reason != "court order" || r.Visits > 0 {
			t.Errorf("a channel of it is %+v", r)
		}
	}
	list, err := d.Candidates(t.Context(), 10)
	if err != nil || slices.ContainsFunc(list.Candidates, func(c desk.Candidate) bool { return strings.Contains(c.Host, "z.example:") }) {
		t.Errorf("found after the takedown: %+v, %v", list, err)
	}
	b.swarm.mu.Lock()
	if n := b.swarm.placed[1]; n != placed {
		t.Errorf("the channel that was taken down was placed %d times more", n-placed)
	}
	b.swarm.mu.Unlock()
	told := map[string][]string{}
	changes, _, err := b.a.Changes(t.Context(), "", archive.MaxFeed)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		told[channel.Origin(c.URL)] = append(told[channel.Origin(c.URL)], c.Event.String())
	}
	if s := strings.Join(told["https://z.example"], " ") + " " + strings.Join(told["http://z.example:8080"], " "); s != "gone gone" {
		t.Errorf("the feed says %q of the host", s)
	}
	if len(told["https://zz.example"]) == 0 || told["https://zz.example"][0] != "created" {
		t.Errorf("the feed says %v of another host", told["https://zz.example"])
	}

	if err := d.Block(t.Context(), "z.example", ""); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b = open(t, dir, nil)
	until(t, "an update after the block was lifted", func() bool { r, _, _ := b.row(in.First); return r.Visits > 0 })
}

// pageOf is why a page cannot be had.
func pageOf(t *testing.T, b *bench, url string) error {
	t.Helper()
	_, err := b.a.Get(t.Context(), url, time.Time{})
	return err
}
