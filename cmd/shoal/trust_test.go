package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shoal/manager/desk"
)

// TestObjectionsAreListed looks at the list of a peer's cases: an operator need not open each to see where the peer objects. Nothing in it moves the terminal's cursor.
func TestObjectionsAreListed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e := desk.PeerEvidence{Cases: []desk.Case{{Number: "00aa", Objection: "My provider\x1b[2J rewrites pages, " + strings.Repeat("and ", 30)}, {Number: "00bb"}}}
	if err := showEvidence(streams{out: &out, err: &out}, &e); err != nil {
		t.Fatal(err)
	}
	said := out.String()
	if !strings.Contains(said, "OBJECTION") || !strings.Contains(said, "My provider") || !strings.Contains(said, "...") || strings.Contains(said, "\x1b") || len(said) > 800 {
		t.Errorf("listed as:\n%s", said)
	}
}

// TestEvidenceSaysWhatIsMissing has more cases than are listed, one of a pardon, and a pardon that is not carried out: the operator is told of each.
func TestEvidenceSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e := desk.PeerEvidence{More: 3, PeerTrust: desk.PeerTrust{Undone: []string{"it is to be a member again"}}, Cases: []desk.Case{{Number: "00aa", Loser: "d-7", Pardoned: time.Unix(1e9, 0)}}}
	if err := showEvidence(streams{out: &out, err: &out}, &e); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 more cases, opened before these, not listed.", "d-7 (pardoned)", "it is to be a member again"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

// TestCaseOfAnotherPeer: a case is shown of the peers that it is about. Of another peer it is refused, with whose it is.
func TestCaseOfAnotherPeer(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/peers/evidence", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(desk.PeerEvidence{PeerTrust: desk.PeerTrust{Deliverer: r.URL.Query().Get("peer")}})
	})
	mux.HandleFunc("GET /api/v1/trust/case", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(desk.Case{Number: r.URL.Query().Get("number"), URL: "https://a.example/", Accused: "d-1", Accuser: "d-2"})
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	for _, peer := range []string{"d-1", "d-2", "d-3"} {
		code, out, said := call(t, "peer", "evidence", peer, "--case", "00ff", "--manager", s.URL, "--token", "x", "--data", t.TempDir())
		if peer == "d-3" {
			if want := "case 00ff is not one of d-3, but of d-1 and d-2: shoal peer evidence d-3 lists its cases"; code != 1 || !strings.Contains(said, want) || out != "" {
				t.Errorf("of a peer that it is not about: status %d, %q, %q", code, out, said)
			}
		} else if code != 0 || !strings.Contains(out, "case 00ff: https://a.example/") {
			t.Errorf("of %s: status %d, %q, %q", peer, code, out, said)
		}
	}
}

// TestDoubtedChannelsAreListed lists the channels on which peers lost cases. A host's name does not move the terminal's cursor.
func TestDoubtedChannelsAreListed(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	d := desk.Trust{DoubtedMore: 3, Doubted: []desk.DoubtedChannel{
		{ID: 7, Host: "https://a\x1b[2J.example", Doubt: desk.Doubt{Watched: time.Unix(1e9, 0).UTC()}}, {ID: 8, Host: "https://b.example", Doubt: desk.Doubt{Others: 5}}}}
	if err := showDoubted(streams{out: &out, err: &errs}, &d); err != nil {
		t.Fatal(err)
	}
	said := out.String()
	for _, w := range []string{"CHANNEL", "2001-09-09", "https://b.example"} {
		if !strings.Contains(said, w) {
			t.Errorf("it lacks %q:\n%s", w, said)
		}
	}
	if strings.Contains(said, "\x1b") || errs.String() != "3 more are not listed.\n" {
		t.Errorf("listed as:\n%s%s", said, errs.String())
	}
	out.Reset()
	if err := showDoubted(streams{out: &out, err: &errs}, &desk.Trust{}); err != nil || !strings.HasPrefix(out.String(), "No channel is on watch") {
		t.Errorf("of none: %q, %v", out.String(), err)
	}
}

// TestSidesAreShownWhereTheyDiffer has an operator see what a forger added far behind the beginning of a page, what is left out, and why a side has no content.
func TestSidesAreShownWhereTheyDiffer(t *testing.T) {
	same := strings.Repeat("the same é ", 1000)
	k := desk.Case{Number: "ff", URL: "https://a.example/", Accused: "d-1", Sides: []desk.CaseSide{
		{Side: "delivered", By: "d-1", Status: 200, Bytes: 20000, Body: same + "forged " + strings.Repeat("x", 5000)},
		{Side: "checked", By: "d-2", Status: 200, Bytes: 12020, Body: same + "the truth"},
		{Side: "arbiter", Error: "its content was not kept"},
	}}
	var b strings.Builder
	if err := showCase(&b, &k); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"forged xxx", "the truth", "11800 bytes are the same on all sides]", "[there is more: --json", "status 0, 0 bytes; its content was not kept"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "there is more"); n != 1 {
		t.Errorf("%d sides are said to be longer, of 1", n)
	}
	for want, sides := range map[int][]desk.CaseSide{0: {{Body: same}, {Body: same}, {}}, 1300: {{Body: same[:1500] + "a"}, {Body: same[:1500]}, {Body: same[:1500] + "b"}}} {
		if got := differs(sides); got != want {
			t.Errorf("shown from %d on, want %d", got, want)
		}
	}
}

// TestTrustSaysSinceWhenItCounts: the counters of what was judged begin anew with the manager, and say so.
func TestTrustSaysSinceWhenItCounts(t *testing.T) {
	at := time.Date(2026, 11, 27, 20, 9, 0, 0, time.Local)
	for _, x := range []struct {
		of   desk.Trust
		want string
	}{
		{desk.Trust{CountedSince: at, Pages: 3}, "judged     since the manager's start at 2026-11-27 20:09:00: 3 pages of 0 deliveries"},
		{desk.Trust{}, "judged     since the start of each manager: 0 pages of 0 deliveries"},
	} {
		var out strings.Builder
		if err := showTrust(&out, &x.of); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), x.want) || !strings.Contains(out.String(), "contested  since then: 0 pages") {
			t.Errorf("%s\nwithout %q", &out, x.want)
		}
	}
}
