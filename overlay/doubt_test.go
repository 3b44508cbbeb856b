package overlay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/coords"
)

// A peer that swallowed a task is passed over while there are others, is offered tasks where there are none, and is forgiven.
func TestDoubt(t *testing.T) {
	now := time.Now()
	n := Node{rng: rand.New(rand.NewPCG(1, 1)), doubts: map[ID]doubt{}, counts: map[string]int64{}}
	place := func(ids ...ID) ID {
		p := &placing{limit: widestOffers, tried: map[ID]bool{}, silent: map[ID]bool{}}
		if len(ids) > 1 {
			p.limit = firstOffers
		}
		for i, id := range ids {
			p.found = append(p.found, PeerRecord{ID: id, Load: Load{Threads: 1, Backlog: time.Duration(i) * time.Minute}})
		}
		r, _ := n.next(now, p)
		return r.ID
	}
	if got := place("a", "b"); got != "a" {
		t.Fatalf("%q is chosen, want the one that is idle", got)
	}
	n.Doubt(now, "a", now)
	if got := place("a", "b"); got != "b" {
		t.Errorf("%q is chosen, which swallows", got)
	}
	if got := place("a"); got != "a" {
		t.Errorf("%q is chosen, want the only one", got)
	}
	now = now.Add(doubtFirst)
	if got := place("a", "b"); got != "a" {
		t.Errorf("%q is chosen after the doubt has passed", got)
	}
	n.Doubt(now, "a", now)
	now = now.Add(doubtFirst)
	if got := place("a", "b"); got != "b" {
		t.Errorf("%q is chosen: the second time counts double", got)
	}
	n.table.hear(now, &PeerRecord{ID: "a"})
	n.Trust(now, "a")
	n.Doubt(now, "a", now.Add(-time.Second)) // of a task that it took before
	if got := place("a", "b"); got != "a" {
		t.Errorf("%q is chosen, a delivered a task", got)
	}
	for range 300 {
		now = now.Add(time.Second)
		n.Doubt(now, "worst", now)
	}
	if d := n.doubts["worst"].until.Sub(now); d != doubtMost {
		t.Errorf("doubted for %v, at most %v", d, doubtMost)
	}
	for i := range 2 * maxDoubts {
		n.Doubt(now, ID(fmt.Sprint(i)), now)
	}
	if len(n.doubts) > maxDoubts || !n.doubted(now, "worst") {
		t.Errorf("%d doubts kept, the longest: %v", len(n.doubts), n.doubted(now, "worst"))
	}
}

// A peer that vanished with a task, and is away or has come back since, did not swallow it. What it takes and does not claim from then on counts.
func TestNoDoubtOfWhoWasAway(t *testing.T) {
	now := time.Now()
	n := Node{doubts: map[ID]doubt{}, counts: map[string]int64{}, table: newTable(&coords.Coord{}, time.Hour, 0)}
	n.table.hear(now, &PeerRecord{ID: "a", Seq: 1})
	took := now
	now = now.Add(time.Minute)
	for range maxFailures {
		n.table.fail("a")
	}
	n.Doubt(now, "a", took)
	if n.doubted(now, "a") {
		t.Error("doubted while it is away")
	}
	now = now.Add(time.Minute)
	n.table.hear(now, &PeerRecord{ID: "a", Seq: 1})
	if n.table.find("a") >= 0 {
		t.Fatal("back by hearsay")
	}
	n.table.hear(now, &PeerRecord{ID: "a", Seq: 2})
	n.Doubt(now, "a", took)
	if n.doubted(now, "a") {
		t.Error("doubted for a task that it took before it was away")
	}
	took = now.Add(time.Second)
	now = now.Add(time.Minute)
	n.table.fail("a") // too short for the table to drop it
	n.table.hear(now, &PeerRecord{ID: "a", Seq: 3})
	n.Doubt(now, "a", took)
	if n.doubted(now, "a") {
		t.Error("doubted for a task that it took before it was briefly away")
	}
	took = now.Add(time.Second)
	n.Doubt(now.Add(time.Minute), "a", took)
	if !n.doubted(now.Add(time.Minute), "a") {
		t.Error("not doubted, though it took a task since it is back, and never claimed it")
	}
}
