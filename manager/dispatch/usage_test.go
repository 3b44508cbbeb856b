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

// TestBarredChannelsAreNotMissed has stale channels beside idle threads that nobody may crawl now: their hosts are blocked, are to be left alone, or are being visited, their
// last crawl failed, or their last handing-out. None of that is for want of a thread.
func TestBarredChannelsAreNotMissed(t *testing.T) {
	for what, bar := range map[string]func(*world){
		"blocked": func(w *world) { w.m.Block(1, "asked to") },
		"polite":  func(w *world) { w.m.Leave(1, w.now.Add(time.Hour)) },
		"visited": func(w *world) { w.m.Visit(w.now, 1) },
		"failing": func(w *world) { w.m.NotBefore(0, w.now.Add(time.Hour)) },
		"ending":  func(w *world) { w.m.cfg.Until = w.now.Add(time.Second) },
		"":        func(*world) {}, // this one is missed
	} {
		w := newWorld(Config{Terms: terms()})
		w.m.judge = unspared{w}
		a, b := w.peer("a"), w.peer("b")
		a.holds, a.gone, a.held = 2, false, 2 // the peer near the host is full
		b.at, b.holds, b.gone = 1000, 2, false
		w.hosts[1] = 0
		w.chans[w.add(1)].stale = true
		bar(w)
		w.tick()
		w.now = w.now.Add(5 * time.Second)
		w.tick()
		if u := w.m.Usage(); u.Idle != 5*time.Second || (u.Missed > 0) != (what == "") {
			t.Errorf("%q: %+v", what, u)
		}
	}
}

// unspared is a world in which tasks near every peer want all its room.
type unspared struct{ *world }

func (unspared) Looked(time.Time) {}
