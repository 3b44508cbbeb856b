package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	libp2p "github.com/libp2p/go-libp2p/core/peer"

	"shoal/internal/wire"
	"shoal/peer"
)

// holding is the court of a server that has suspended everybody for one case, ff.
func holding() wire.Court {
	var mu sync.Mutex
	objected := map[libp2p.ID]string{}
	profiles := map[libp2p.ID]wire.Profile{}
	return func(_ context.Context, from libp2p.ID, ask wire.StandingAsk) (wire.Standing, error) {
		o := ask.Objection
		mu.Lock()
		defer mu.Unlock()
		s := wire.Standing{Standing: "suspended", Enforced: true, Score: 19.5, SuspendAt: 18}
		switch {
		case o.Case != 0 && o.Case != 0xff:
			s.Refused = "there is no such case"
		case o.Case != 0 && objected[from] != "":
			s.Refused = "there is one already"
		case o.Case != 0:
			objected[from] = o.Text
		}
		if f := ask.Profile; f != nil && f.Nickname == "taken" {
			s.Refused = "another account is on the board as it"
		} else if f != nil {
			profiles[from] = *f
		}
		if ask.Certify {
			s.Certificate = "CERTIFICATE for " + ask.Name + "\n"
		}
		if ask.Certify && ask.Name == "nobody" {
			s.Certificate, s.Refused = "", "nothing was verified"
		}
		s.Credit = &wire.Credit{Pages: 1234, Bytes: 5 << 20, Weeks: []wire.CreditWeek{{Name: "2026-W47", Pages: 34, Bytes: 1 << 20}}, Rank: 3, Ranked: 17, Profile: profiles[from], TeamPages: 2000, TeamRank: 1, Teams: 2, Board: "http://board.example/"}
		s.Held = []wire.Held{{Case: 0xff, URL: "http://a.example/\x1b[2J", Reason: "lost audit", Ruled: time.Unix(1e9, 0), Amount: 2.5, Objection: objected[from]}}
		return s, nil
	}
}

// TestVolunteerSeesWhatIsHeld has a volunteer see its standing, object to a case, and fail to do so twice.
func TestVolunteerSeesWhatIsHeld(t *testing.T) {
	v := newVolunteer(t)
	if code, text := v.do("join", manager(t), "--yes"); code != 0 {
		t.Fatal(text)
	}
	ctx, end := context.WithCancel(t.Context())
	code := make(chan int, 1)
	var out buffer
	go func() {
		code <- run(ctx, []string{"run", "--port", "0", "--listen", "127.0.0.1", "--no-quic", "--no-dht", "--no-low-priority", "--control", "127.0.0.1:0"}, streams{&out, &out, v.env, nil})
	}()
	defer func() { end(); <-code }()
	for limit := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		c, text := v.do("status")
		if c == 0 && strings.Contains(text, "standing  suspended for what it delivered") {
			for _, want := range []string{"1 case, score 19.5; a peer is suspended at 18.0", "00000000000000ff", "lost audit (added 2.5 then)", "shoal-peer object CASE TEXT"} {
				if !strings.Contains(text, want) {
					t.Errorf("the status has no %q:\n%s", want, text)
				}
			}
			if strings.Contains(text, "\x1b") {
				t.Error("the status prints a server's control characters")
			}
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("no standing: %s %s", text, out.String())
		}
	}
	for _, o := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"object", "zz", "no"}, 1, "is no number of a case"},
		{[]string{"object", "ff", strings.Repeat("x", wire.MaxObjection+1)}, 1, "1 to 1000 bytes"},
		{[]string{"object", "fe", "no"}, 1, "there is no such case"},
		{[]string{"object", "00000000000000ff", "I", "saw", "it"}, 0, "The company sees your objection at case"},
		{[]string{"object", "ff", "again"}, 1, "there is one already"},
	} {
		if c, text := v.do(o.args...); c != o.code || !strings.Contains(text, o.says) {
			t.Errorf("shoal-peer %.40q: status %d, %s; want %d and %q", o.args, c, text, o.code, o.says)
		}
	}
	file := filepath.Join(t.TempDir(), "certificate.txt")
	for _, o := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"contribution"}, 0, "1234 pages, 5.0 MiB, which others saw too\nrank      3 of 17\nboard     not on it"},
		{[]string{"profile"}, 1, "nothing to change"},
		{[]string{"profile", "--nickname", "taken", "--public"}, 1, "another account is on the board as it"},
		{[]string{"profile", "--nickname", "Ali", "--team", "Sharks", "--public"}, 0, "The board shows Ali, team Sharks."},
		{[]string{"contribution"}, 0, "on it as Ali, team Sharks\n          http://board.example/\nteam      Sharks, 2000 pages, rank 1 of 2\n  2026-W47  34 pages, 1.0 MiB"},
		{[]string{"profile", "--team", ""}, 0, "The board shows Ali."},
		{[]string{"certificate"}, 0, "CERTIFICATE for Ali"},
		{[]string{"certificate", "--name", "nobody"}, 1, "there is no certificate: nothing was verified"},
		{[]string{"certificate", "--name", "Ada", "--out", file}, 0, "Anybody can check it"},
		{[]string{"certificate", "--name", "Ada", "--out", file}, 1, "never overwritten"},
		{[]string{"profile", "--private"}, 0, "does not show this account"},
		{[]string{"contribution"}, 0, "not on it; kept: Ali"},
	} {
		if c, text := v.do(o.args...); c != o.code || !strings.Contains(text, o.says) {
			t.Errorf("shoal-peer %q: status %d, %s; want %d and %q", o.args, c, text, o.code, o.says)
		}
	}
	if _, text := v.do("status"); !strings.Contains(text, "you object: I saw it") || !strings.Contains(text, "rank      3 of 17") || strings.Contains(text, "W47") {
		t.Errorf("the status does not tell the objection:\n%s", text)
	}
}

// TestStandingInWords prints each standing.
func TestStandingInWords(t *testing.T) {
	for standing, want := range map[string]string{"newcomer": "a newcomer", "established": "believed", "suspended": "suspended", "banned": "banned", "else": "else", "unknown": ""} {
		var b strings.Builder
		printStanding(&b, &peer.Standing{Standing: standing})
		if got := b.String(); !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, "held") {
			t.Errorf("%s is told as %q", standing, got)
		}
	}
}

// TestStandingSaysWhatFollows has a volunteer told that its peer is in doubt, or gets no tasks for what another computer of the account delivered, and not that it is
// believed; and of each case whether there is still something to say.
func TestStandingSaysWhatFollows(t *testing.T) {
	held := []peer.Held{{Case: "ff", URL: "http://a.example/", Reason: "lost audit", Objection: "It was so."}}
	for _, c := range []struct {
		st        peer.Standing
		want, not string
	}{
		{peer.Standing{Standing: "established", Suspect: true, Enforced: true}, "in doubt, by its score: more of what this peer delivers is checked, and shown only once", "believed"},
		{peer.Standing{Standing: "established", Suspect: true}, "in doubt, by its score: more of what this peer delivers is checked\n", "believed"},
		{peer.Standing{Standing: "newcomer", Waits: true}, "a newcomer without tasks for now", "checked"},
		{peer.Standing{Standing: "established", Credit: &peer.Credit{Withheld: true}}, "no tasks: this account is banned, or another computer of it is suspended", "believed"},
		{peer.Standing{Standing: "suspended", Suspect: true, Credit: &peer.Credit{Withheld: true}}, "suspended for what it delivered", "another computer"},
		{peer.Standing{Standing: "established", Held: held, More: 3}, "3 older cases not listed", "say so once"},
		{peer.Standing{Standing: "established", Held: append(held, peer.Held{Case: "fe"})}, "say so once", "not listed"},
	} {
		var b strings.Builder
		if printStanding(&b, &c.st); !strings.Contains(b.String(), c.want) || strings.Contains(b.String(), c.not) {
			t.Errorf("%+v is told as %q; want %q, and not %q", c.st, b.String(), c.want, c.not)
		}
	}
}

// TestScoreThatHasFallen: a score that is less than what its cases added says why.
func TestScoreThatHasFallen(t *testing.T) {
	held := []peer.Held{{Case: "ff", URL: "http://a.example/", Reason: "lost audit", Amount: 1.8}}
	for score, want := range map[float64]string{0: "score 0.0, which has fallen since; ", 1.8: "score 1.8; "} {
		var b strings.Builder
		printStanding(&b, &peer.Standing{Standing: "established", Held: held, Score: score, SuspendAt: 18})
		if !strings.Contains(b.String(), want) || !strings.Contains(b.String(), "lost audit (added 1.8 then)") {
			t.Error(b.String())
		}
	}
}
