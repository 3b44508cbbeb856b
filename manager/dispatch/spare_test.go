package dispatch

import (
	"maps"
	"slices"
	"testing"

	"shoal/recrawl"
)

// What Due does not want goes to threads that would stand idle and to no queue, after what is wanted: to peers near its host, and once those elsewhere have stood idle
// for a tick, to them.
func TestSpareThreads(t *testing.T) {
	w := newWorld(Config{Terms: terms()})
	for i, at := range []int{0, 1000, 2000, 3000} {
		p := w.peer(Peer([]string{"a", "b", "c", "d"}[i]))
		p.at, p.holds, p.gone = at, 3, false // two threads and a place in the queue
	}
	for range 8 { // all at a
		s := w.add(0)
		w.chans[s].stale = s > 0
	}
	w.chans[0].wanted = true
	orders, _ := w.tick()
	var got []recrawl.Slot
	for _, o := range orders {
		got = append(got, o.Slot)
		if o.Peer != "a" {
			t.Errorf("channel %d goes to %s, which is far from its host", o.Slot, o.Peer)
		}
	}
	if want := []recrawl.Slot{0, 1}; !slices.Equal(got, want) {
		t.Fatalf("handed out %v, want %v: one that is wanted, one for the thread that is left, none for the queue", got, want)
	}
	far := map[Peer]int{}
	for range 3 {
		w.now = w.now.Add(tick)
		orders, _ = w.tick()
		for _, o := range orders {
			far[o.Peer]++
		}
	}
	if want := map[Peer]int{"b": 2, "c": 2, "d": 2}; !maps.Equal(far, want) {
		t.Errorf("%v of the other six go to each peer, want %v", far, want)
	}
	last := w.add(0)
	w.chans[last].wanted = true
	if orders, _ = w.tick(); len(orders) != 1 || orders[0].Slot != last {
		t.Errorf("a place in the queue is kept from what is wanted: %v", orders)
	}
}

// No more goes to idle threads than the peers may hold.
func TestSpareKeepsToTheRoom(t *testing.T) {
	w := newWorld(Config{Terms: terms(), MaxOut: 3})
	p := w.peer("a")
	p.holds, p.gone = 10, false
	for range 8 {
		w.chans[w.add(0)].stale = true
	}
	if orders, _ := w.tick(); len(orders) != 3 {
		t.Errorf("%d are handed out, want 3", len(orders))
	}
}

// Farther is told since when a task has waited that no peer takes.
func TestSince(t *testing.T) {
	w := newWorld(Config{Terms: terms(), MaxOut: 3})
	w.peer("a").gone = false // it holds nothing
	w.chans[w.add(0)].wanted = true
	began := w.now
	for ticks := range 3 * 2 * patience {
		w.tick()
		if got, want := w.since, began; ticks >= 2*patience && !got.Equal(want) {
			t.Fatalf("after %d ticks: it waits since %v, want %v", ticks, got, want)
		}
		w.now = w.now.Add(tick)
	}
}
