package manager

import (
	"testing"

	"shoal/channel"
	"shoal/manager/dispatch"
	"shoal/manager/trust"
	"shoal/recrawl"
)

// TestRoll has more peers deliver than a manager may remember, each under a new name. Of each channel it knows who was the last, and of the others nothing.
func TestRoll(t *testing.T) {
	const channels = 100
	table, r := dispatch.NewTable(), newRoll()
	for s := range recrawl.Slot(channels) {
		table.Put(s, channel.ID(s+1), channel.HostKey(s+1))
	}
	last := map[recrawl.Slot]trust.Peer{}
	for n := trust.Peer(1); n <= 10*leastRoll; n++ {
		s := recrawl.Slot(n % (channels - 1)) // the last one is never crawled
		r.delivered(table, s, n)
		last[s] = n
		if len(r.peers) > leastRoll+1 || len(r.place) > leastRoll+1 {
			t.Fatalf("after %d peers %d are known, %d by number; want at most %d", n, len(r.peers), len(r.place), leastRoll+1)
		}
	}
	for s := range recrawl.Slot(channels) {
		if got := r.last(table, s); got != last[s] {
			t.Errorf("slot %d was crawled last by %d, want %d", s, got, last[s])
		}
	}
	r.delivered(table, 0, last[1])
	if a, b := table.Last(0), table.Last(1); a != b {
		t.Errorf("a peer is known as %d and as %d", a, b)
	}
}

// TestLargeRoll has a peer of its own for each of more channels than a roll has at first: none is forgotten.
func TestLargeRoll(t *testing.T) {
	const channels = 3 * leastRoll
	table, r := dispatch.NewTable(), newRoll()
	for s := range recrawl.Slot(channels) {
		table.Put(s, channel.ID(s+1), channel.HostKey(s+1))
		r.delivered(table, s, trust.Peer(s)+1)
	}
	for s := range recrawl.Slot(channels) {
		if got := r.last(table, s); got != trust.Peer(s)+1 {
			t.Fatalf("slot %d was crawled last by %d", s, got)
		}
	}
	if len(r.peers) != channels+1 {
		t.Errorf("%d peers are known", len(r.peers))
	}
}
