package archive

import (
	"fmt"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/lab/waiting"
	"shoal/manager/archive/ledger"
)

// Who is banned loses what it has claimed: by its own name, and by that of its account, where no connection tells any more whose account it is.
func TestEvict(t *testing.T) {
	a, _, _ := watched(t)
	bad, _ := start(t, a, "bad", 1, 1)
	start(t, a, "worse", 2, 1)
	start(t, a, "good", 3, 1)
	if n, err := a.Evict(t.Context(), []string{"of bad", "worse", "of nobody"}); n != 2 || err != nil {
		t.Errorf("%d claims ended, %v", n, err)
	}
	if n := a.Stats().Leases; n != 1 {
		t.Errorf("%d claims are left", n)
	}
	entries, _, err := a.Feed(t.Context(), "", MaxFeed)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Event.Kind == lease.Released && !e.Event.Until.Equal(e.When.Add(lease.Default().Term)) {
			t.Errorf("the host of channel %d is free from %v on, %v after the ban, though its peer may not have heard of it", e.Channel, e.Event.Until, e.Event.Until.Sub(e.When))
		}
	}
	late := bad.chunk(channel.ChunkBody{Pages: []channel.Page{bad.page("/", home, channel.Changed)}})
	if got, err := a.Put(t.Context(), "bad", late); err != nil || got.Status != lease.Fenced {
		t.Errorf("a chunk of a peer that was evicted: %v, %v", got.Status, err)
	}
}

// TestEvictWaitsForFew has chunks of other peers be stored for a long time while somebody is banned: what that one has claimed ends meanwhile. On a busy
// computer a ban that waits for one channel after the other would not end in time.
func TestEvictWaitsForFew(t *testing.T) {
	a, _, _ := watched(t)
	const busy = 10
	for id := range channel.ID(busy) {
		start(t, a, "good", id+1, 1)
	}
	start(t, a, "bad", busy+1, 1)
	var held []*ledger.Revision
	for id := channel.ID(1); id < busy; id += 2 {
		r, err := a.ReviseBoth(id, id+1)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, r)
	}
	over := make(chan error, 1)
	go func() {
		n, err := a.Evict(t.Context(), []string{"bad"})
		if err == nil && n != 1 {
			err = fmt.Errorf("%d claims ended", n)
		}
		over <- err
	}()
	waiting.Until(t, "the claim ends", func() bool { return a.Stats().Leases == busy }, nil)
	for _, r := range held {
		r.Release()
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// A claim whose connection ended while it was answered is of the account that its peer had before: who bans that account, ends it.
func TestClaimOfAPeerThatHasGone(t *testing.T) {
	cfg, gone := testConfig(t.TempDir()), false
	cfg.AccountOf = func(peer string) string {
		if gone {
			return ""
		}
		return "of " + peer
	}
	a := open(t, cfg)
	start(t, a, "bad", 1, 1)
	gone = true
	start(t, a, "bad", 2, 1)
	if n, err := a.Evict(t.Context(), []string{"of bad"}); n != 2 || err != nil {
		t.Errorf("%d of 2 claims ended, %v", n, err)
	}
}

// TestClaimAsItsPeerIsBanned has an operator ban a peer while its claim is written: nothing is left claimed, though the ban's look at what is came before.
func TestClaimAsItsPeerIsBanned(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.AccountOf = func(peer string) string { return "of " + peer }
	cfg.Banned = func() []string { return []string{"of bad"} }
	a := open(t, cfg)
	for peer, want := range map[string]lease.Status{"bad": lease.Fenced, "good": lease.Granted} {
		id := channel.ID(len(peer))
		signed, body := task(id, 1, time.Now().Add(time.Hour))
		if err := a.Deposit(t.Context(), signed, body); err != nil {
			t.Fatal(err)
		}
		if got, err := a.Claim(t.Context(), peer, signed); err != nil || got.Status != want || (got.Body != nil) != (want == lease.Granted) {
			t.Errorf("%s: %v, %d bytes, %v; want %v", peer, got.Status, len(got.Body), err, want)
		}
	}
	if n := a.Stats().Leases; n != 1 {
		t.Errorf("%d tasks are claimed, want that of the peer that is not banned", n)
	}
}
