package trust

import (
	"math/rand/v2"
	"testing"
	"time"
)

// crowded is a Machine that enforces its rules, with an established peer elsewhere and three newcomers of one address prefix, each of an account of its own: 1, 2 and 3.
func crowded(t *testing.T) *Machine {
	t.Helper()
	cfg := Default()
	cfg.Enforce = true
	m, err := New(cfg, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	m.Join(9, 90, 9)
	m.Vouch(9)
	for n := Peer(1); n <= 3; n++ {
		m.Join(n, Account(10*n), 1)
	}
	m.handed = 1000
	return m
}

// may tells which of the three get tasks, asked in this order.
func may(m *Machine) (all [3]bool) {
	for i := range all {
		all[i] = m.MayTake(Peer(i+1), false)
	}
	return all
}

// works has a peer take a task and end it.
func works(m *Machine, n Peer) {
	m.Handed(n)
	m.Deliver(time.Now(), &Delivery{Peer: n, Channel: 1, At: time.Now()})
	m.handedNew = 0
}

// TestWhoLeavesLeavesItsPlace has two newcomers of a prefix take one task each and go for good. The third one gets tasks an hour later, also when the manager was
// started anew meanwhile, and it is known that it waits until then.
func TestWhoLeavesLeavesItsPlace(t *testing.T) {
	for _, restart := range []bool{false, true} {
		m := crowded(t)
		if got := may(m); got != [3]bool{true, true, false} {
			t.Fatalf("who gets tasks: %v", got)
		}
		works(m, 1)
		works(m, 2)
		if restart {
			next := crowded(t)
			for n := Peer(1); n <= 3; n++ {
				delete(next.peers, n)
			}
			delete(next.peers, 9)
			next.newcomers, next.established = 0, 0
			for _, s := range PeerShards() {
				if err := next.Restore(s, m.Append(nil, s)); err != nil {
					t.Fatal(err)
				}
			}
			m = next
		}
		here := func(n Peer) bool { return n == 3 }
		for look := range awayLooks {
			i, _ := m.Peer(3)
			if m.MayTake(3, false) || !i.Waits {
				t.Errorf("restart %v, look %d: the third one gets tasks already, or does not wait: %+v", restart, look, i)
			}
			m.Vacate(here)
		}
		if i, _ := m.Peer(3); i.Waits || !m.MayTake(3, false) {
			t.Errorf("restart %v: the two have gone, and the third one waits: %+v", restart, i)
		}
		if !m.MayTake(1, false) || m.MayTake(2, false) {
			t.Errorf("restart %v: of those who come back the first one has the free place, and no other", restart)
		}
	}
}

// TestIdlePlacesGoRound has two newcomers be asked that never take a task: after a day the one who waits has a place, though they are asked first. While nobody waits they
// keep theirs, and so do those who work.
func TestIdlePlacesGoRound(t *testing.T) {
	m := crowded(t)
	everyone := func(Peer) bool { return true }
	m.MayTake(1, false)
	m.MayTake(2, false)
	for range 3 * idleLooks {
		m.Vacate(everyone)
	}
	if len(m.places[1].holders) != 2 {
		t.Errorf("while nobody waits %d of 2 keep their places", len(m.places[1].holders))
	}
	m = crowded(t)
	for range idleLooks {
		if got := may(m); got != [3]bool{true, true, false} {
			t.Fatalf("within a day: who gets tasks: %v", got)
		}
		works(m, 1)
		m.Vacate(everyone)
	}
	if got := may(m); got != [3]bool{true, false, true} {
		t.Errorf("after a day: who gets tasks: %v; want the one that works and the one that waited", got)
	}
}

// TestSuspendedKeepPlaces has one peer of a prefix be suspended and go: its place stays taken.
func TestSuspendedKeepPlaces(t *testing.T) {
	m := crowded(t)
	may(m)
	m.suspend(m.peers[1], 20)
	m.take()
	for range 2 * idleLooks {
		m.Vacate(func(n Peer) bool { return n != 1 })
		works(m, 2)
		if m.MayTake(3, false) {
			t.Fatal("another one has the place of a suspended peer")
		}
	}
}
