package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shoal/manager/desk"
)

// court knows one peer that is suspended, and one case about it.
type court struct{ upheld, pardoned string }

func (c *court) Rules(context.Context) (desk.Trust, error) {
	return desk.Trust{Says: []string{"Scores run in <i>shadow</i>."}, Pages: 12345, TrustRules: desk.TrustRules{T: 18}, Watched: 1, Barred: 3,
		Doubted: []desk.DoubtedChannel{{ID: 77, Host: "https://a.<i>example", Doubt: desk.Doubt{Watched: time.Unix(1e9, 0), Others: 3}}}, DoubtedMore: 8}, nil
}

func (c *court) one() desk.PeerTrust {
	return desk.PeerTrust{Peer: "12D3<u>KooWabcdefghijkl", Deliverer: "d-0123456789ab", Standing: "suspended", Forging: 19.25, Others: []string{"d-00000000000a"}}
}

func (c *court) Peers(context.Context) ([]desk.PeerTrust, int, error) {
	return []desk.PeerTrust{c.one()}, 4321, nil
}

func (c *court) Evidence(_ context.Context, peer string) (desk.PeerEvidence, error) {
	if peer != "d-0123456789ab" {
		return desk.PeerEvidence{}, errors.New("manager: no such peer")
	}
	return desk.PeerEvidence{PeerTrust: c.one(), Cases: []desk.Case{{Number: "00ff", URL: "https://a.example/<b>", Reason: "lost audit", Means: "Another peer <b>saw", Loser: peer, Amount: 4.5, Objection: "It was <b>so</b>."}}}, nil
}

func (c *court) Case(context.Context, string) (desk.Case, error) {
	return desk.Case{Number: "00ff", URL: "https://a.example/", Accused: "d-0123456789ab", Accuser: "d-ba9876543210", Sides: []desk.CaseSide{
		{Side: "delivered", By: "d-0123456789ab", Status: 200, Body: "<script>alert(1)</script>"}, {Side: "checked", By: "d-ba9876543210", Status: 200, Body: "the truth"}, {Side: "arbiter", Status: 200, Body: "the truth"}}}, nil
}

func (c *court) Uphold(_ context.Context, peer string) (desk.PeerTrust, error) {
	c.upheld = peer
	return c.one(), nil
}

func (c *court) Pardon(_ context.Context, peer string) (desk.Pardoned, error) {
	c.pardoned = peer
	return desk.Pardoned{PeerTrust: c.one()}, nil
}

// TestTrustPages looks at the pages about whom to believe, and decides on them.
func TestTrustPages(t *testing.T) {
	c := &court{}
	h, err := Handler(Config{Desk: &fake{}, Court: c, Token: "s3cret", OpenView: true})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	defer s.Close()
	for path, want := range map[string][]string{
		"/trust":                          {"&lt;i&gt;shadow", "12\u202f345 pages", "d-0123456789ab", "19.25", "4\u202f321 more", "suspended", "1 on watch", "0 banned, and 3 <a", `<a href="/channel/77">https://a.&lt;i&gt;example</a>`, "2001-09-09", ">8 more"},
		"/trust/peer?peer=d-0123456789ab": {"https://a.example/&lt;b&gt;", "4.50", "Another peer &lt;b&gt;saw", "/trust/peer?peer=d-00000000000a", "It was &lt;b&gt;so", "/trust/case?number=00ff", "Uphold", "Pardon"},
		"/trust/case?number=00ff":         {"&lt;script&gt;alert(1)", "the truth", "the manager itself", "delivered", "checked"},
		"/trust/peer?peer=someone":        {"no such peer"},
	} {
		_, page := ask(t, "GET", s.URL+path, token)
		for _, w := range want {
			if !strings.Contains(page, w) {
				t.Errorf("%s lacks %q:\n%s", path, w, page)
			}
		}
	}
	for path, words := range map[string][]string{"/trust": {"shadow", "contested", "scores", "checks", "watch", "standing"}, "/trust/peer?peer=d-0123456789ab": {"standing", "scores", "cases"}} {
		_, page := ask(t, "GET", s.URL+path, token)
		for _, word := range words {
			if !strings.Contains(page, `popovertarget="why-`+word+"-") {
				t.Errorf("%s does not explain %s", path, word)
			}
		}
	}
	if _, page := ask(t, "GET", s.URL+"/trust/peer?peer=d-0123456789ab", nil); strings.Contains(page, "Uphold") {
		t.Error("who may not operate is shown how to")
	}
	for path, says := range map[string]string{"/trust/uphold": "The suspension is final", "/trust/pardon": "It is pardoned"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader("peer=d-0123456789ab"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Authorization", "Bearer s3cret")
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		to := resp.Header.Get("Location")
		if resp.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, "/trust/peer?peer=d-0123456789ab") {
			t.Errorf("%s: %s to %s", path, resp.Status, to)
		}
		if _, page := ask(t, "GET", s.URL+to, token); !strings.Contains(page, says) || !strings.Contains(page, "d-0123456789ab") {
			t.Errorf("%s: the page after it does not say %q:\n%s", path, says, page)
		}
	}
	if c.upheld != "d-0123456789ab" || c.pardoned != "d-0123456789ab" {
		t.Errorf("%+v", c)
	}
}
