package dispatch

import (
	"testing"
	"time"
)

// Idle time is that of threads without a task; it is missed while something is stale that no near peer could take.
func TestUsage(t *testing.T) {
	w := newWorld(Config{Terms: terms()})
	w.m.judge = unspared{w}
	for i, name := range []Peer{"a", "b", "c", "d"} {
		p := w.peer(name)
		p.at, p.holds, p.gone = 1000*i, 2, false // a thread each, and a place in the queue
	}
	pass := func(d time.Duration) {
		w.now = w.now.Add(d)
		w.tick()
	}
	pass(0)
	pass(5 * time.Second) // nothing to do
	if u := w.m.Usage(); u != (Usage{Offered: 20 * time.Second, Idle: 20 * time.Second}) {
		t.Fatalf("%+v", u)
	}
	for range 2 {
		w.chans[w.add(0)].stale = true // both at a, which has one thread
	}
	pass(0)
	pass(5 * time.Second)
	if u := w.m.Usage(); u != (Usage{Offered: 40 * time.Second, Idle: 35 * time.Second, Missed: 15 * time.Second}) {
		t.Errorf("%+v", u)
	}
	pass(time.Hour)
	if u := w.m.Usage(); u.Offered != 80*time.Second {
		t.Errorf("an hour without a look counts as %v", u.Offered-40*time.Second)
	}
}

// unspared is a world in which tasks near every peer want all its room.
type unspared struct{ *world }

func (unspared) Looked(time.Time) {}
