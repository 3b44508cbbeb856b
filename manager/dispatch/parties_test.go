package dispatch

import (
	"testing"
	"time"

	"shoal/channel"
)

// A channel is given up when the peers of enough parties have taken it and not claimed it: of three, or of more than a quarter of the members. All who
// may have taken it and did not answer are one party.
func TestFewPartiesGiveNoChannelUp(t *testing.T) {
	for _, c := range []struct {
		parties  uint64
		members  int
		answered bool
		want     bool
	}{
		{1, 5, true, false}, {2, 5, true, false}, {3, 5, true, true}, {4, 11, true, true},
		{3, 12, true, false}, {10, 50, true, false}, {13, 50, true, true},
		{50, 5, false, false},
	} {
		next := uint64(0)
		w := newWorld(Config{Terms: terms(), Party: func(Peer) uint64 { next++; return 1 + next%c.parties }, Members: func() int { return c.members }})
		w.hosts[1] = 0
		w.peer("p").holds, w.peer("p").gone = 5, false
		s := w.add(channel.HostKey(1))
		w.chans[s].wanted = true
		gaveUp, orders := false, 0
		for range 3000 {
			w.now = w.now.Add(time.Minute)
			for _, o := range w.m.Tick(w.now) {
				orders++
				if c.answered {
					w.m.Placed(w.now, o, "p", w.now)
				} else {
					w.m.Unsure(w.now, o)
				}
			}
			for _, a := range w.m.Acts() {
				if a.Kind == Persist {
					w.chans[a.Slot].issue = a.Issue
				}
				gaveUp = gaveUp || a.Kind == GaveUp
			}
		}
		if gaveUp != c.want || orders < terms().Handouts {
			t.Errorf("%d parties among %d members took it, answered %v, %d times: given up %v, want %v", c.parties, c.members, c.answered, orders, gaveUp, c.want)
		}
	}
}
