package dispatch

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
)

// A channel is given up when the peers of three accounts have taken it and not claimed it, not when those of one account have.
func TestOneAccountGivesNoChannelUp(t *testing.T) {
	for accounts, want := range map[uint64]bool{1: false, 2: false, 3: true} {
		next := uint64(0)
		w := newWorld(Config{Terms: terms(), Account: func(Peer) uint64 { next++; return 1 + next%accounts }})
		w.hosts[1] = 0
		w.peer("p").holds, w.peer("p").gone = 5, false
		s := w.add(channel.HostKey(1))
		w.chans[s].wanted = true
		gaveUp := false
		for range 600 {
			w.now = w.now.Add(time.Minute)
			for _, o := range w.m.Tick(w.now) {
				w.m.Placed(w.now, o, "p", w.now)
			}
			for _, a := range w.m.Acts() {
				if a.Kind == Persist {
					w.chans[a.Slot].issue = a.Issue
				}
				gaveUp = gaveUp || a.Kind == GaveUp
			}
		}
		if gaveUp != want || next < lease.DefaultHandouts-3 {
			t.Errorf("%d accounts took it %d times: given up %v, want %v", accounts, next, gaveUp, want)
		}
	}
}
