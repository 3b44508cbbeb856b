package livesim

import (
	"math"
	"reflect"
	"testing"

	"shoal/cmd/shoal-sim/recrawlsim"
)

// TestLives has peers come and go in turn within the run, the same for every strategy; who does not churn stays, and of a halved network every other leaves.
func TestLives(t *testing.T) {
	a, b := cell{Strategy: "icr", Churn: true, Seed: 3, Minutes: 5, Scene: "none"}, cell{Strategy: "price", Churn: true, Seed: 3, Minutes: 5, Scene: "none"}
	all := a.lives(2)
	if len(all) < 4 || !reflect.DeepEqual(all, b.lives(2)) || reflect.DeepEqual(all, a.lives(3)) {
		t.Errorf("lives of peers 2 and 3: %v, %v", all, a.lives(3))
	}
	for k, m := range all {
		if m.comes != (k%2 == 0) || m.at >= 300 || k > 0 && m.at < all[k-1].at {
			t.Errorf("move %d of %v", k, all)
		}
	}
	half := cell{Scene: "half", Minutes: 4}
	if got := half.lives(1); len(got) != 2 || got[1] != (move{120, 1, false, false}) || len(half.lives(2)) != 1 {
		t.Errorf("of a halved network: %v, %v", got, half.lives(2))
	}
}

func TestStepped(t *testing.T) {
	got := stepped([]move{{0, 0, true, false}, {0.2, 1, true, false}, {1, 0, false, true}, {20.4, 1, false, false}}, 1.6)
	want := []recrawlsim.Move{{Step: 2, Peer: 0}, {Step: 2, Peer: 1}, {Step: 2, Peer: 0, Polite: true}, {Step: 20, Peer: 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestLate: how long peers take to come is told by the time before the first one goes, and what the manager counts of killed ones later is no time of theirs.
func TestLate(t *testing.T) {
	n := &network{cell: &cell{Peers: 2, Threads: 3}, moves: []move{{0, 0, true, false}, {0, 1, true, false}, {10, 1, false, false}, {30, 1, true, false}}}
	w := &watched{}
	for at := 1.; at <= 50; at++ {
		threads := 3 * max(at-2, 0) // of peer 0, which takes two seconds to come, as peer 1 does
		threads += 3 * max(min(at, 18)-2, 0)
		threads += 3 * max(at-32, 0)
		w.series = append(w.series, sample{at: at, threads: threads})
	}
	if got := n.late(w); math.Abs(got-2) > 1e-9 {
		t.Errorf("they take %v s to come, want 2", got)
	}
	if got := n.ghosts(w); math.Abs(got-3*8) > 1e-9 {
		t.Errorf("%v s of threads are of peers that were gone, want 24", got)
	}
	n.moves = append(n.moves, move{at: 1.5, peer: 0})
	if got := n.late(w); got != usualStart {
		t.Errorf("%v s where the first one went before its threads were there, want %v", got, usualStart)
	}
}
