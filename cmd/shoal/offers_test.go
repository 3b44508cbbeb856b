package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"shoal/channel"
	"shoal/internal/wire/uplink"
	"shoal/overlay"
	"shoal/overlay/p2p"
)

// granting is an archive that grants every claim.
type granting struct{ uplink.Archive }

func (granting) Claim(context.Context, string, channel.Signed) (uplink.Claimed, error) {
	return uplink.Claimed{Reply: uplink.Reply{Status: uplink.Granted}}, nil
}

// A task is claimed by a peer that accepted it or whose answer is not known, and not by one that refused it or was never asked.
func TestOnlyAcceptersClaim(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	o := newOffers(granting{}, func() time.Time { return now })
	h := channel.Header{Channel: 7, Gen: 3, Host: "https://example.org", Issued: now, Latest: now.Add(time.Hour)}
	task := channel.Signed{Raw: h.Marshal()}
	claim := func(peer string) uplink.Status {
		t.Helper()
		c, err := o.Claim(t.Context(), peer, task)
		if err != nil {
			t.Fatal(err)
		}
		return c.Status
	}
	if got := claim("anyone"); got != uplink.Granted {
		t.Errorf("a task of which no offers are known: %v", got)
	}
	offer := func(peer string, answers ...p2p.Answer) {
		o.note(peer, h, p2p.NoAnswer)
		for _, a := range answers {
			o.note(peer, h, a)
		}
	}
	offer("thief", p2p.Refused)
	offer("silent")
	offer("taker", p2p.Accepted)
	offer("late", p2p.Refused, p2p.NoAnswer, p2p.Accepted) // asked once more
	want := map[string]uplink.Status{"thief": uplink.Fenced, "accomplice": uplink.Fenced, "silent": uplink.Granted, "taker": uplink.Granted, "late": uplink.Granted}
	for _, when := range []time.Duration{0, time.Minute, 59 * time.Minute} {
		now = h.Issued.Add(when)
		for peer, want := range want {
			if got := claim(peer); got != want {
				t.Errorf("%s after %v: %v, want %v", peer, when, got, want)
			}
		}
	}
	// What the taker hands over when it leaves its heir may claim, though that peer has refused the task when it was offered. The thief cannot hand
	// over what it never had.
	keys, ids := [2]crypto.PrivKey{}, [2]string{} // of an accepter and a refuser
	for i, said := range []p2p.Answer{p2p.Accepted, p2p.Refused} {
		key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(bytes.Repeat([]byte{byte(i + 1)}, 64)))
		if err != nil {
			t.Fatal(err)
		}
		id, err := peer.IDFromPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		keys[i], ids[i] = key, id.String()
		offer(ids[i], said)
	}
	for giver, want := range []uplink.Status{uplink.Granted, uplink.Fenced} {
		for _, heir := range []string{"thief", "heir"} {
			passed, err := p2p.HandOver(keys[giver], task, overlay.ID(heir))
			if err != nil {
				t.Fatal(err)
			}
			c, err := o.Claim(t.Context(), heir, passed)
			if err != nil || c.Status != want {
				t.Errorf("%s with a handover of giver %d: %v, want %v (%v)", heir, giver, c.Status, want, err)
			}
		}
	}
	other := h
	other.Gen++
	task = channel.Signed{Raw: other.Marshal()}
	if got := claim("thief"); got != uplink.Granted {
		t.Errorf("another handing-out: %v", got)
	}
	for i := range 2 * maxOffered {
		other.Gen = channel.Gen(100 + i)
		o.note("taker", other, p2p.NoAnswer)
	}
	if len(o.made) > maxOffered || len(o.order) > maxOffered {
		t.Errorf("the offers of %d tasks are remembered", len(o.made))
	}
	now = h.Latest.Add(time.Second)
	o.note("taker", channel.Header{Channel: 8, Gen: 1, Latest: now.Add(time.Hour)}, p2p.NoAnswer)
	if len(o.made) != 1 || len(o.order) != 1 {
		t.Errorf("%d tasks are remembered, of which one may still be started", len(o.made))
	}
}
