package manager

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/manager/trust"
	"shoal/overlay"
)

// TestPlacesOfThoseWhoLeft has two newcomers of a router uninstall the program after one task each. The third volunteer there gets tasks within two hours and a little.
func TestPlacesOfThoseWhoLeft(t *testing.T) {
	reg, swarm := &register{}, &passers{}
	au := newAuditor(&core{inbox: newInbox(time.Now), cfg: Config{Swarm: swarm, Archive: reg, Store: &drawer{states: map[string][]byte{}}}, log: slog.New(slog.DiscardHandler)}, nil, &errands{})
	rules := trust.Default()
	rules.Enforce = true
	var err error
	if au.trust, err = trust.New(rules, rand.New(rand.NewPCG(1, 2))); err != nil {
		t.Fatal(err)
	}
	ids := []overlay.ID{"known", "first", "second", "third"}
	var there []overlay.PeerRecord
	for _, id := range ids {
		there = append(there, overlay.PeerRecord{ID: id, Account: string(id)})
	}
	swarm.view = overlay.ViewOf(time.Now(), there)
	au.trust.Vouch(au.meet("known"))
	for range 200 {
		au.handed("known")
	}
	for _, id := range ids[1:] {
		au.trust.Join(au.meet(id), trust.Account(au.number(string(id))), 7)
	}
	now := time.Now()
	hour := func() {
		au.vacate(now, au.trust, swarm.view)
		now = now.Add(placesEvery)
	}
	mayTake := func(id overlay.ID) bool { return au.trust.MayTake(au.meet(id), false) }
	hour()
	for _, id := range ids[1:3] {
		if !mayTake(id) {
			t.Fatalf("%s gets no task", id)
		}
		au.trust.Deliver(now, &trust.Delivery{Peer: au.meet(id), Channel: 1, At: now})
	}
	hour()
	if mayTake("third") {
		t.Fatal("all three of an address prefix get tasks")
	}
	swarm.view = overlay.ViewOf(now, []overlay.PeerRecord{there[0], there[3]})
	hour()
	if mayTake("third") {
		t.Error("who was seen an hour ago has lost its place")
	}
	hour()
	if !mayTake("third") {
		t.Error("two hours after two newcomers of its address prefix have gone, a third one waits for tasks")
	}
}
