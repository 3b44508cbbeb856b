package overlay

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/coords"
)

// A peer that gave a task back, or refused one though its queue is empty, is about to leave: it is named for no task until it has told of that. A
// peer that does not want a host, which it puts off by a day, may have other tasks.
func TestWhoLeavesIsNotNamed(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	n := Node{doubts: map[ID]doubt{}, counts: map[string]int64{}, places: map[uint64]*placing{}, pending: map[uint64]*request{}, table: newTable(&coords.Coord{}, time.Hour, 0)}
	for _, id := range []ID{"leaver", "refuser", "picky"} {
		n.table.hear(now, &PeerRecord{ID: id, Seq: 1, Load: Load{Threads: 1}})
		n.Trust(now, id)
	}
	n.GaveBack(now, "leaver")
	n.GaveBack(now, "stranger")
	for req, answer := range map[uint64]Answer{1: {Req: 1, Start: now}, 2: {Req: 2, Start: now.Add(24 * time.Hour)}} {
		to := map[uint64]ID{1: "refuser", 2: "picky"}[req]
		n.places[req] = &placing{req: req, limit: widestOffers, tried: map[ID]bool{to: true}}
		n.pending[req] = &request{kind: offering, to: to, place: req}
		n.onAnswer(now, to, answer)
	}
	stands := func(id ID) standing { return n.standing(now, &n.table.entries[n.table.find(id)]) }
	for _, at := range []struct {
		after time.Duration
		want  map[ID]standing
	}{
		{0, map[ID]standing{"leaver": avoided, "refuser": full, "picky": usual}},
		{fullLeast, map[ID]standing{"leaver": avoided, "refuser": usual, "picky": usual}},
		{fullMost, map[ID]standing{"leaver": usual, "refuser": usual, "picky": usual}},
	} {
		began := now
		now = now.Add(at.after)
		for id, want := range at.want {
			if got := stands(id); got != want {
				t.Errorf("after %v: %s stands %d, want %d", at.after, id, got, want)
			}
		}
		now = began
	}
}

// A peer that refuses a task since it is behind gets no more until it says that it could start one, or has delivered: its tasks may take less than it thought.
// Its threads that have our tasks count meanwhile, since they work; those of one that only says so do not. One that leaves delivers, too, and is not asked again.
func TestWhoIsBehindIsAskedAgain(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	n := Node{doubts: map[ID]doubt{}, counts: map[string]int64{}, table: newTable(&coords.Coord{}, time.Hour, 0)}
	j, err := NewJudge(JudgeConfig{}, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []ID{"behind", "leaves", "other"} {
		n.table.hear(now, &PeerRecord{ID: id, Seq: 1, Load: Load{Threads: 5}})
		n.Trust(now, id)
	}
	n.table.entries[n.table.find("behind")].refused(now, now.Add(30*time.Second), "http://a")
	n.table.entries[n.table.find("leaves")].refused(now, now, "http://a")
	check := func(when string, threads, idle int, want map[ID]standing) {
		t.Helper()
		j.See(n.View(now))
		if all, free := j.Threads(); all != threads || free != idle {
			t.Errorf("%s: %d of %d threads are idle, want %d of %d", when, free, all, idle, threads)
		}
		for id, s := range want {
			if got := n.standing(now, &n.table.entries[n.table.find(id)]); got != s {
				t.Errorf("%s: %s stands %d, want %d", when, id, got, s)
			}
		}
	}
	j.See(n.View(now))
	j.Held(now, "behind", 4)
	check("at first", 9, 5, map[ID]standing{"behind": full, "leaves": full, "other": usual})
	now = now.Add(2 * time.Second)
	n.Trust(now, "leaves")
	check("one that leaves has delivered", 9, 5, map[ID]standing{"behind": full, "leaves": full})
	n.Trust(now, "behind")
	check("the other has", 10, 6, map[ID]standing{"behind": usual, "leaves": full})
	n.table.entries[n.table.find("behind")].refused(now, now.Add(30*time.Second), "http://a")
	n.GaveBack(now, "behind")
	n.Trust(now, "behind")
	check("it gives a task back", 5, 5, map[ID]standing{"behind": avoided})
	now = now.Add(fullMost)
	check("a minute later", 15, 11, map[ID]standing{"behind": usual, "leaves": usual})
}

// A peer that gave a task back is offered nothing: it may be gone by then, and an offer without an answer keeps the task waiting for a claim.
func TestWhoLeavesIsNotOffered(t *testing.T) {
	w := grow(t, 4, 6, 5*time.Minute)
	for id := range w.hosts {
		w.hosts["m"].node.GaveBack(w.now, id)
	}
	if e := w.place(w.task(time.Hour), coords.HostRecord{}); !errors.Is(e.Err, ErrRefused) || e.Placed.Offers > 0 {
		t.Errorf("%d offers, %v", e.Placed.Offers, e.Err)
	}
	w.now = w.now.Add(fullMost)
	if e := w.place(w.task(time.Hour), coords.HostRecord{}); e.Err != nil {
		t.Errorf("after a minute: %v", e.Err)
	}
}

// A view tells which peers have delivered nothing.
func TestViewTellsWhoIsFresh(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	n := Node{doubts: map[ID]doubt{}, counts: map[string]int64{}, table: newTable(&coords.Coord{}, time.Hour, 0)}
	for _, id := range []ID{"new", "proven"} {
		n.table.hear(now, &PeerRecord{ID: id, Seq: 1, Load: Load{Threads: 1}})
	}
	n.Trust(now, "proven")
	n.Doubt(now.Add(time.Minute), "proven", now.Add(time.Second))
	v := n.View(now)
	if !v.Fresh(v.Index("new")) || v.Fresh(v.Index("proven")) || v.Index("gone") >= 0 || ViewOf(now, v.Peers).Fresh(0) {
		t.Errorf("fresh: %v", v.fresh)
	}
}
