package trust

import (
	"testing"
	"time"
)

// TestCheckerVouchesForWhatItChecked has a checker answer after another peer has delivered a new version: it saw what the delivery says that it was to check, and
// vouches for no other.
func TestCheckerVouchesForWhatItChecked(t *testing.T) {
	w := newStage(t, 1)
	for n := range 3 {
		w.m.Join(Peer(n+1), Account(n+1), Prefix(n+1))
		w.m.Vouch(Peer(n + 1))
	}
	w.deliver(t, 1, 9, []string{"apple"})
	asked := w.audit[url(9, 0)]
	w.now = w.now.Add(time.Minute)
	w.deliver(t, 2, 9, []string{"fake"})
	e := w.evidence(asked, "apple", "apple")
	w.say(w.m.Answered(w.now, 3, &e))
	if g := w.page(9, 0); g.Cur.By != 2 || g.Cur.State != Provisional || g.Cur.Seen() != 0 {
		t.Errorf("who saw the version before vouches for %+v", g.Cur)
	}
	if p, _ := w.m.Peer(1); p.Checks != 1 {
		t.Errorf("the delivery that was checked has %d valid checks", p.Checks)
	}
	e = w.evidence(w.audit[url(9, 0)], "fake", "fake")
	w.say(w.m.Answered(w.now, 3, &e))
	if g := w.page(9, 0); g.Cur.State != Verified {
		t.Errorf("who saw this version leaves it %+v", g.Cur)
	}
}

// TestWatchWaitsForItsOwnChecks has checks of the delivery before come late: they do not have the one accepted that is held on a watched channel.
func TestWatchWaitsForItsOwnChecks(t *testing.T) {
	w := newStage(t, 1)
	for n := range 4 {
		w.m.Join(Peer(n+1), Account(n+1), Prefix(n+1))
		w.m.Vouch(Peer(n + 1))
	}
	words := []string{"apple", "pear", "plum", "fig", "nut"}
	w.deliver(t, 1, 9, words)
	w.m.loser(w.now, 9, 4, true)
	w.now = w.now.Add(time.Minute)
	before := map[uint64]Case{}
	for n := range words {
		before[url(9, n)] = Case{Reason: LostAudit, URL: url(9, n), Channel: 9, Accused: 1, At: w.now.Add(-time.Minute).Unix()}
	}
	w.deliver(t, 2, 9, []string{"a", "b", "c", "d", "e"})
	for n, word := range words {
		e := w.evidence(before[url(9, n)], word, word)
		w.say(w.m.Answered(w.now, 3, &e))
	}
	if g := w.page(9, 0); g.Cur.By != 2 || g.Cur.State != Held {
		t.Errorf("checks of another delivery leave the held one %+v", g.Cur)
	}
}

// TestHeldDeliveryIsNotVerifiedByOneFriend has a friend vouch for a page of a delivery that then loses before the arbiter by another page: it is verified no more until
// as many have seen it as of any other page of that delivery, and not shown if the friend's word goes.
func TestHeldDeliveryIsNotVerifiedByOneFriend(t *testing.T) {
	held := func() Page {
		g := Page{Cur: Version{Digest: 2, By: 1, At: 10, State: Verified, Also: [3]Peer{2}}, Prev: Version{Digest: 1, By: 9, State: Verified}, LastBy: 1, LastAt: 10}
		for range 2 { // it may be repeated
			if !g.Hold(1, 10) && g.Cur.State != Provisional {
				t.Fatalf("held it is %+v", g.Cur)
			}
		}
		return g
	}
	g := held()
	if g.Cur.State != Provisional || g.Shown() != &g.Cur || g.Tells() {
		t.Errorf("held it is %+v", g.Cur)
	}
	g.see(3)
	if g.Cur.State != Provisional {
		t.Errorf("after one more account it is %v", g.Cur.State)
	}
	if g.see(4); g.Cur.State != Verified {
		t.Errorf("after three accounts it is %v", g.Cur.State)
	}
	g = held()
	if g.Withdraw(2); g.Cur.State != Held || g.Shown() != &g.Prev {
		t.Errorf("without the friend's word it is %v", g.Cur.State)
	}
	g = held()
	if g.Withdraw(1); g.Cur.State != Withdrawn || g.Cur.Doubt {
		t.Errorf("without its deliverer it is %+v", g.Cur)
	}
	g.Restore(1)
	if g.Cur.State != Verified {
		t.Errorf("given back it is %v", g.Cur.State)
	}
	g = Page{Cur: Version{Digest: 2, By: 1, At: 10, State: Verified, Also: [3]Peer{2, 3, 4}}}
	if g.Hold(1, 10) || g.Cur.State != Verified {
		t.Errorf("what three accounts saw is %v", g.Cur.State)
	}
}
