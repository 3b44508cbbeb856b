package dispatch

import (
	"testing"
	"time"

	"shoal/channel/lease"
)

// TestClaimInTheUnreadFeed has a peer claim its task in time, and the feed be read late, as while partitions are taken: until all was heard that the feed had at the
// end of the wait, no other channel of the host goes, and the task counts as out.
func TestClaimInTheUnreadFeed(t *testing.T) {
	for what, claimed := range map[string]bool{"the claim stands in the feed": true, "nobody has claimed it": false} {
		heard := epoch
		w := newWorld(Config{Terms: terms(), MaxOut: -1, Heard: func() time.Time { return heard }})
		p := w.peer("a")
		p.holds, p.gone = 9, false
		w.add(7)
		w.add(7)
		w.chans[0].wanted = true
		orders, _ := w.tick()
		w.m.Placed(w.now, orders[0], "a", w.now)
		heard = w.now.Add(15 * time.Minute)
		for w.chans[1].wanted = true; w.now.Before(epoch.Add(17 * time.Minute)); w.now = w.now.Add(tick) {
			if late, _ := w.tick(); len(late) > 0 {
				t.Fatalf("%s: after %v, with the feed unread, channel %d goes", what, w.now.Sub(epoch), late[0].Slot)
			}
			heard = orders[0].Latest.Add(-time.Millisecond)
		}
		if claimed {
			if err := w.hear(0, lease.Event{Kind: lease.Claimed, Gen: orders[0].Gen}, "a"); err != nil {
				t.Fatal(err)
			}
		}
		heard = w.now
		w.now = w.now.Add(hearAgain)
		late, _ := w.tick()
		if is := w.m.IsOut(0); is != claimed || len(late) > 0 && claimed {
			t.Errorf("%s: it is out: %v, and %d other tasks go", what, is, len(late))
		}
	}
}
