package wire

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"shoal/internal/wire/wirepb"
)

// TestCreditIsTold asks a manager for the credit of one's account, sets a profile and gets a certificate. What is too long is cut.
func TestCreditIsTold(t *testing.T) {
	w := newNet(t, openPolicy)
	p := w.member(Config{})
	var asked []StandingAsk
	w.manager.ServeStanding(func(_ context.Context, _ peer.ID, ask StandingAsk) (Standing, error) {
		asked = append(asked, ask)
		s := Standing{Standing: "established"}
		if ask.Certify {
			s.Certificate = "it was " + ask.Name
		}
		if ask.Profile != nil {
			s.Credit = &Credit{Pages: 3, Bytes: 1 << 40, Rank: 2, Ranked: 9, Profile: *ask.Profile, TeamPages: 8, TeamRank: 1, Teams: 4, Board: "http://b.example", Weeks: make([]CreditWeek, MaxWeeks+9)}
			s.Credit.Weeks[0] = CreditWeek{"2026-W47" + strings.Repeat("x", 99), 3, 4}
		}
		return s, nil
	})
	tell := func(ask StandingAsk) *Standing {
		t.Helper()
		s, err := p.Standing(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := tell(StandingAsk{}); s.Credit != nil || s.Certificate != "" {
		t.Errorf("told %+v", s)
	}
	if s := tell(StandingAsk{Certify: true, Name: "Ada"}); s.Certificate != "it was Ada" {
		t.Errorf("told %+v", s)
	}
	f := Profile{Nickname: "Ali", Team: strings.Repeat("ü", maxPerson), Public: true}
	s := tell(StandingAsk{Profile: &f})
	f.Team = strings.Repeat("ü", maxPerson/2)
	want := &Credit{Pages: 3, Bytes: 1 << 40, Rank: 2, Ranked: 9, Profile: f, TeamPages: 8, TeamRank: 1, Teams: 4, Board: "http://b.example", Weeks: make([]CreditWeek, MaxWeeks)}
	want.Weeks[0] = CreditWeek{"2026-W47xxxxxxxx", 3, 4}
	if !reflect.DeepEqual(s.Credit, want) {
		t.Errorf("told %+v, want %+v", s.Credit, want)
	}
	if len(asked) != 3 || !reflect.DeepEqual(asked[0], StandingAsk{}) || asked[1].Profile != nil || *asked[2].Profile != f || asked[2].Certify {
		t.Errorf("asked %+v", asked)
	}
}

// TestBoardIsOfTheWeb keeps what is no address of the Web from a volunteer's page, which makes a link of it.
func TestBoardIsOfTheWeb(t *testing.T) {
	for board, want := range map[string]string{"https://b.example/x": "https://b.example/x", "javascript:alert(1)": "", "//b.example": "", "data:text/html,x": "", "https://b.example/" + strings.Repeat("x", maxBoard): ""} {
		if got := readCredit(&wirepb.Credit{Board: board}); got.Board != want {
			t.Errorf("%.40q became %q", board, got.Board)
		}
	}
}
