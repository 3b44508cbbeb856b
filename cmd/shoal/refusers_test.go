package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/wire/uplink"
)

// granting is an archive that grants every claim.
type granting struct{ uplink.Archive }

func (granting) Claim(context.Context, string, channel.Signed) (uplink.Claimed, error) {
	return uplink.Claimed{Reply: uplink.Reply{Status: uplink.Granted}}, nil
}

// A peer that answered "busy" cannot claim the task; one that accepted can, and so can one that was never asked.
func TestRefusersCannotClaim(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := newRefusers(granting{}, func() time.Time { return now })
	h := channel.Header{Channel: 7, Gen: 3, Host: "https://example.org", Issued: now, Latest: now.Add(time.Hour)}
	task := channel.Signed{Raw: h.Marshal()}
	claim := func(peer string) uplink.Status {
		t.Helper()
		c, err := r.Claim(t.Context(), peer, task)
		if err != nil {
			t.Fatal(err)
		}
		return c.Status
	}
	r.answered("thief", h, false)
	r.answered("taker", h, true)
	r.answered("late", h, false)
	r.answered("late", h, true) // asked once more
	for peer, want := range map[string]uplink.Status{"thief": uplink.Fenced, "taker": uplink.Granted, "late": uplink.Granted, "heir": uplink.Granted} {
		if got := claim(peer); got != want {
			t.Errorf("%s: %v, want %v", peer, got, want)
		}
	}
	other := h
	other.Gen++
	task = channel.Signed{Raw: other.Marshal()}
	if got := claim("thief"); got != uplink.Granted {
		t.Errorf("the next handing-out: %v", got)
	}
	task = channel.Signed{Raw: h.Marshal()}
	now = now.Add(refusedFor)
	if got := claim("thief"); got != uplink.Granted {
		t.Errorf("what was handed over to it later: %v", got)
	}
	for i := range 2 * maxRefused {
		r.answered(fmt.Sprint(i), h, false)
	}
	if len(r.until) > maxRefused || len(r.order) > maxRefused {
		t.Errorf("%d refusals are remembered", len(r.until))
	}
}
