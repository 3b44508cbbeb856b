package wire

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// TestStandingIsToldToTheBannedToo asks a manager about oneself as a member, objects, and asks again after a ban has ended the membership.
func TestStandingIsToldToTheBannedToo(t *testing.T) {
	w := newNet(t, openPolicy)
	p := w.member(Config{})
	if _, err := p.Standing(t.Context(), StandingAsk{}); !errors.Is(err, ErrNoStanding) {
		t.Fatalf("a manager without a court answers: %v", err)
	}
	objections := map[uint64]string{}
	w.manager.ServeStanding(func(_ context.Context, from peer.ID, ask StandingAsk) (Standing, error) {
		if from != p.ID() {
			return Standing{}, errors.New("another one asks")
		}
		o := ask.Objection
		s := Standing{Standing: "suspended", Enforced: true, Score: 20, SuspendAt: math.Inf(1), Held: make([]Held, MaxHeld+5), More: 7}
		if o.Case != 0 && objections[o.Case] != "" {
			s.Refused = "there is one already"
		} else if o.Case != 0 {
			objections[o.Case] = o.Text
		}
		for i := range s.Held {
			s.Held[i] = Held{Case: uint64(i + 1), URL: "http://a.test/" + strings.Repeat("x", 2*maxHeldURL), Ruled: time.Unix(1, 0), Objection: objections[uint64(i+1)]}
		}
		return s, nil
	})
	check := func(o Objection) *Standing {
		t.Helper()
		var s *Standing
		var err error
		eventually(t, "the manager tells", func() bool { s, err = p.Standing(t.Context(), StandingAsk{Objection: o}); return err == nil })
		if s.Standing != "suspended" || len(s.Held) != MaxHeld || s.More != 7 || s.SuspendAt != 0 || len(s.Held[0].URL) > maxHeldURL || !s.Held[0].Ruled.Equal(time.Unix(1, 0)) {
			t.Fatalf("told %+v", s)
		}
		return s
	}
	check(Objection{})
	if s := check(Objection{Case: 3, Text: "I saw it"}); s.Refused != "" || s.Held[2].Objection != "I saw it" {
		t.Fatalf("told %+v", s.Held[2])
	}
	if _, err := p.Standing(t.Context(), StandingAsk{Objection: Objection{Case: 4, Text: strings.Repeat("x", maxStandAsk+1)}}); err == nil || objections[4] != "" {
		t.Error("an endless objection is taken")
	}
	if err := w.issuer.Deny(p.ID().String(), true); err != nil {
		t.Fatal(err)
	}
	if err := w.manager.Learn(w.banning(p.ID().String())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "is no member any more", func() bool { _, is := w.manager.Member(p.ID()); return !is })
	if s := check(Objection{Case: 3, Text: "again"}); s.Refused == "" {
		t.Error("a second objection is taken")
	}
}
