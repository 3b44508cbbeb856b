package dispatch

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/recrawl"
)

// TestAwaitedNoLongerThoughTheClockIsSetBack has a clock go forward and be set right. What was issued or came to nothing meanwhile waits for as long as ever, and what was issued before that is
// awaited until its latest start, which is of the right time.
func TestAwaitedNoLongerThoughTheClockIsSetBack(t *testing.T) {
	const ahead = 5 * time.Minute
	w := newWorld(Config{Terms: terms(), MaxOut: -1})
	p := w.peer("a")
	p.holds, p.gone = 9, false
	for host := range 3 {
		w.add(channel.HostKey(host + 7))
	}
	hand := func(s int) Order {
		t.Helper()
		w.chans[s].wanted = true
		orders, lines := w.tick()
		if len(orders) != 1 {
			t.Fatalf("of channel %d: %v", s, lines)
		}
		w.m.Placed(w.now, orders[0], "a", w.now)
		return orders[0]
	}
	before := hand(0)
	w.now = w.now.Add(ahead)
	since := w.now
	w.tick()
	during := hand(1)
	failed := hand(2)
	for _, k := range []lease.Kind{lease.Claimed, lease.Lapsed} {
		if err := w.hear(2, lease.Event{Kind: k, Gen: failed.Gen}, "a"); err != nil {
			t.Fatal(err)
		}
	}
	w.tick()
	w.now = w.now.Add(-ahead)
	Advance(w.m, since, ahead)
	w.acts()
	for s, want := range []time.Time{before.Latest, during.Latest.Add(-ahead), w.now.Add(terms().Backoff)} {
		i, _ := w.m.Issue(recrawl.Slot(s))
		if got := i.Deadline(); !got.Equal(want) {
			t.Errorf("channel %d, which is %v, waits until %v, want %v", s, i.Phase, got.Sub(w.now), want.Sub(w.now))
		}
		if got := w.chans[s].issue.Deadline(); !got.Equal(want) {
			t.Errorf("channel %d waits until %v after a restart, want %v", s, got.Sub(w.now), want.Sub(w.now))
		}
	}
	w.now = w.now.Add(terms().Backoff)
	if orders, _ := w.tick(); len(orders) != 1 || orders[0].Slot != 2 {
		t.Errorf("after its pause goes %v, want channel 2", orders)
	}
	for _, out := range []bool{true, false} {
		if w.now = before.Latest; out {
			w.now = w.now.Add(-1)
		}
		w.tick()
		if w.m.IsOut(0) != out || w.m.IsOut(1) != out {
			t.Errorf("after %v out are: %v, %v", w.now.Sub(before.Issued), w.m.IsOut(0), w.m.IsOut(1))
		}
	}
}

// TestMovedOnceWhenTheClockIsSet says until when hosts and channels are left alone by a time that counts evenly, too. It is kept as what the clock shows, or a clock that is set would move it
// by itself, and Shift again.
func TestMovedOnceWhenTheClockIsSet(t *testing.T) {
	w := newWorld(Config{Terms: terms(), MaxOut: -1})
	w.add(7)
	w.add(8)
	w.add(9)
	now := time.Now()
	until := now.Add(time.Minute)
	w.m.Leave(7, until)
	w.m.Visit(now, 8)
	w.m.Left(8, until)
	w.m.Leave(9, now.Add(time.Hour))
	w.m.Hurry(9, until)
	w.m.NotBefore(0, until)
	for what, at := range map[string]time.Time{"left alone": LeftUntil(w.m, 7), "left alone after a visit": LeftUntil(w.m, 8), "hurried": LeftUntil(w.m, 9), "waiting": w.m.Until(0)} {
		if at != until.Round(0) { // not Equal: the same time that counts evenly is another one
			t.Errorf("%s until %v, want %v", what, at, until.Round(0))
		}
	}
	Shift(w.m, now, 10*time.Minute)
	Shift(w.m, now.Add(10*time.Minute), -9*time.Minute)
	for what, at := range map[string]time.Time{"left alone": LeftUntil(w.m, 7), "waiting": w.m.Until(0)} {
		if want := until.Round(0).Add(time.Minute); !at.Equal(want) {
			t.Errorf("%s until %v, want %v", what, at, want)
		}
	}
}

// TestWhatIsOverStaysOver sets the clock back after a host and a channel had rested. Neither is to rest again, though the time comes again.
func TestWhatIsOverStaysOver(t *testing.T) {
	w := newWorld(Config{Terms: terms(), MaxOut: -1})
	w.add(7)
	now := w.now
	w.m.Leave(7, now.Add(time.Second))
	w.m.NotBefore(0, now.Add(time.Second))
	now = now.Add(time.Minute)
	Shift(w.m, now, -time.Hour)
	if until := LeftUntil(w.m, 7); !until.IsZero() {
		t.Errorf("the host is left alone until %v", until)
	}
	if until := w.m.Until(0); !until.IsZero() {
		t.Errorf("the channel waits until %v", until)
	}
}

// TestNotedAndSaid has a host left alone by a record, and a little longer by what is said now. The clock is set back: the record may be of the clock that is right now.
func TestNotedAndSaid(t *testing.T) {
	w := newWorld(Config{Terms: terms(), MaxOut: -1})
	w.add(7)
	LeaveNoted(w.m, 7, w.now.Add(4*time.Minute))
	w.m.Leave(7, w.now.Add(5*time.Minute))
	Shift(w.m, w.now, -10*time.Minute)
	if got := LeftUntil(w.m, 7).Sub(w.now); got != 4*time.Minute {
		t.Errorf("the host is left alone for %v", got)
	}
	w.m.Leave(7, w.now.Add(time.Minute))
	if got := LeftUntil(w.m, 7).Sub(w.now); got != 4*time.Minute {
		t.Errorf("by a shorter time the host is left alone for %v", got)
	}
}
