package manager

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/trust"
	"shoal/overlay"
)

// TestWhatComesLateIsOneDelivery: chunks that come after a lease's end are judged together, when another peer claims the channel, or a lease's term after the first of them,
// however many still come.
func TestWhatComesLateIsOneDelivery(t *testing.T) {
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	au := newAuditor(&core{inbox: newInbox(time.Now), cfg: Config{Swarm: &passers{view: overlay.ViewOf(now, nil)}, Archive: &register{}, Store: &drawer{states: map[string][]byte{}}, Now: func() time.Time { return now }, Terms: lease.Terms{Term: time.Hour}},
		log: slog.New(slog.DiscardHandler)}, nil, &errands{})
	var err error
	if au.trust, err = trust.New(trust.Default(), rand.New(rand.NewPCG(1, 2))); err != nil {
		t.Fatal(err)
	}
	d := deliveries{au}
	came := func(id channel.ID, gen channel.Gen, chunks int) {
		for range chunks {
			d.broughtLate("cursor", &archive.Entry{Channel: id, Peer: "late", Event: lease.Event{Kind: lease.Brought, Gen: gen, Progress: true, By: 1}})
		}
	}
	judged := func(what string, want int) {
		t.Helper()
		if d.judgeLate(now); au.clerks.n != want {
			t.Errorf("%s: %d deliveries are judged, want %d", what, au.clerks.n, want)
		}
	}
	came(1, 1, 10)
	judged("while chunks may come", 0)
	d.claimEnded(1)
	judged("when another peer has claimed", 1)
	d.claimEnded(1)
	judged("when nothing has come since", 1)
	came(2, 1, 3)
	came(2, 2, 3)
	judged("when another lease has ended, too", 2)
	for range 5 {
		now = now.Add(15 * time.Minute)
		came(2, 2, 1)
		d.judgeLate(now)
	}
	judged("when chunks come for longer than a lease", 3)
	if len(au.unread) != 4 {
		t.Errorf("%d places of the feed are kept, want 4", len(au.unread))
	}
}
