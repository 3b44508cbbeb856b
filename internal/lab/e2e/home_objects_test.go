package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"shoal/internal/member"
	"shoal/internal/wire"

	libp2p "github.com/libp2p/go-libp2p/core/peer"
)

// TestVolunteerObjects shows a suspended volunteer the cases against it, on a wide screen and a phone's, and takes an objection to one, in a real browser. The
// server is a node that has suspended everybody. It does not answer the first question: the page asks again by itself.
func TestVolunteerObjects(t *testing.T) {
	t.Parallel()
	axe := axeScript(t)
	b := openBrowser(t)
	h := newHome(t)
	join, objections := suspendingServer(t)
	b.enter(h.link(), "A search company")
	b.eval("document.querySelector('#join').value = " + quote(join) + "; true")
	b.press("See who asks")
	b.shows("You would lend this computer to Example Search")
	b.press("I agree: join")
	b.until("is a member", "document.querySelector('#nav a[href=\"#contribution\"]').hidden === false")
	b.view("contribution", "Suspended for what it delivered")
	b.shows("http://a.example/<b>x</b>0")
	b.shows("withheld: this account is banned, or a computer of it suspended")
	for _, width := range []int{1280, 360} {
		b.call(b.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
		b.picture(fmt.Sprintf("home-objects-%d", width))
		if over := b.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth"); over != "0" {
			t.Errorf("%d pixels wide: the page is %s pixels wider than its window", width, over)
		}
		for _, f := range b.faults(axe) {
			t.Errorf("%d pixels wide: %s: %s: %s", width, f.Impact, f.Help, f.places())
		}
	}
	b.eval("document.querySelector('section.preview textarea').value = 'I only wrote what I saw.'; true")
	b.press("Object")
	b.shows("You object: I only wrote what I saw.")
	b.until("has one form left", "document.querySelectorAll('section.preview form').length === 1")
	if said := objections(0xff); said != "I only wrote what I saw." {
		t.Errorf("the server was told %q", said)
	}
}

// suspendingServer holds two cases against each peer, and does not answer the first question. objections tells what was said to a case.
func suspendingServer(t *testing.T) (join string, objections func(number uint64) string) {
	t.Helper()
	keys, err := member.LoadOrCreate(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := member.NewIssuer(keys.Authority, member.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := wire.New(t.Context(), wire.Config{Key: keys.Node, Network: keys.Network, Role: member.Manager, Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	sealed, serial := keys.Delegations(time.Now())
	doc, err := keys.Authority.SignDocument(member.Document{Network: keys.Network, Delegations: sealed, MinSerial: serial,
		Managers: []member.Server{{Peer: node.ID().String(), Addrs: []string{node.Host().Addrs()[0].String()}}}, Name: "Example Search", Contact: "http://contact.test/",
		MinProtocol: 1, Issued: time.Now(), NotAfter: time.Now().Add(time.Hour), Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.SetIssuer(issuer, doc); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	asked, objected := 0, map[uint64]string{}
	node.ServeStanding(func(_ context.Context, _ libp2p.ID, ask wire.StandingAsk) (wire.Standing, error) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked == 1 {
			return wire.Standing{}, errors.New("the server has too much to do")
		}
		s := wire.Standing{Standing: "suspended", Enforced: true, Score: 19.5, SuspendAt: 18, More: 3}
		if o := ask.Objection; o.Case != 0 {
			if objected[o.Case] != "" {
				s.Refused = "there is one already"
			} else {
				objected[o.Case] = o.Text
			}
		}
		for i := range uint64(2) {
			s.Held = append(s.Held, wire.Held{Case: 0xff + i, URL: "http://a.example/<b>x</b>" + fmt.Sprint(i), Reason: "the arbiter saw what the checker saw", Ruled: time.Now(), Amount: 2.5, Objection: objected[0xff+i]})
		}
		s.Credit = &wire.Credit{Pages: 1234, Bytes: 5 << 20, Withheld: true, Weeks: []wire.CreditWeek{{Name: "2026-W47", Pages: 34, Bytes: 1 << 20}, {Name: "2026-W46", Pages: 1200, Bytes: 4 << 20}}, Rank: 3, Ranked: 17, Profile: wire.Profile{Nickname: "Ali", Team: "Sharks", Public: true}, TeamPages: 2000, TeamRank: 1, Teams: 2, Board: "http://board.example/"}
		return s, nil
	})
	return member.JoinString{Network: keys.Network, Addrs: node.Addrs()}.String(), func(number uint64) string {
		mu.Lock()
		defer mu.Unlock()
		return objected[number]
	}
}
