package crawl

import (
	"fmt"
	"runtime"
	"testing"

	"shoal/channel"
)

// TestMillionPages holds what a crawl of 1,000,000 pages keeps in memory to a fifth of what five crawls may have.
func TestMillionPages(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 60 MB to a temporary folder")
	}
	const pages = 1_000_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	seen, todo, traps := newSeen(0), newFIFO(disk{}, t.TempDir(), MaxSpill), newTraps()
	defer todo.close()
	digests := make([]channel.PageDigest, channel.MaxDigests)
	for i := range digests {
		digests[i] = channel.PageDigest{URL: uint64(i) * 7919, Content: uint64(i)}
	}
	known := newKnown(digests)
	for i := range pages {
		u := fmt.Sprintf("http://site.test/section-%d/page-%d.html", i%1000, i)
		it := item{url: u, hash: urlHash(u), depth: 3}
		if !seen.add(it.hash) {
			t.Fatalf("false \"seen\" for %s", u)
		}
		traps.trap(u)
		if err := todo.add(it); err != nil {
			t.Fatal(err)
		}
	}
	if got := float64(heap()-before) / (1 << 20); got > 14 {
		t.Errorf("%.1f MiB for a to-do list of %d pages; 14 are allowed", got, pages)
	}
	if todo.len() != pages || seen.n != pages {
		t.Errorf("%d to do, %d seen", todo.len(), seen.n)
	}
	for i := range pages {
		it, ok, err := todo.next()
		if err != nil || !ok || it.url != fmt.Sprintf("http://site.test/section-%d/page-%d.html", i%1000, i) || it.depth != 3 || !seen.has(it.hash) {
			t.Fatalf("item %d is %+v, %v, %v", i, it, ok, err)
		}
	}
	if _, ok, _ := todo.next(); ok {
		t.Error("more came out than went in")
	}
	if known.change(7919, 1) != channel.Unchanged || known.change(7919, 2) != channel.Changed || known.change(3, 3) != channel.New {
		t.Error("known pages")
	}
	runtime.KeepAlive(traps)
}
