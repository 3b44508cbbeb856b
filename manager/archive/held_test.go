package archive

import (
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/trust"
)

// TestHeldInTurn has two liars in turn deliver a page of a channel on watch, so that each forgery is held. The record has room for one of them beside the version that is shown: the first was taken for
// one that nothing is known of, and shown, once the second came.
func TestHeldInTurn(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "mallory", "trudy")
	page := func(body string) func(r *runner) []channel.Page {
		return func(r *runner) []channel.Page { return []channel.Page{r.page("/", body, channel.Changed)} }
	}
	for i, c := range []struct {
		peer, body string
		held       bool
	}{{"alice", home, false}, {"bob", home, false}, {"mallory", forge, true}, {"trudy", news + forge, true}, {"mallory", forge + news, true}} {
		cl.crawl(t, a, c.peer, channel.Gen(i+1), page(c.body))
		d, _ := j.deliver(cl, channel.Gen(i+1))
		if !c.held {
			continue
		}
		by, at := trust.Peer(a.DelivererNumber(c.peer)), d.Claimed.Unix()
		if _, err := a.Review(t.Context(), 1, func(g *trust.Page) bool { return g.Hold(by, at) }); err != nil {
			t.Fatal(err)
		}
		if got := shown(t, a, "http://site-1.example/"); got != home {
			t.Errorf("after %s's delivery is held the page shows %.40q", c.peer, got)
		}
	}
	if got := j.record("/"); got != "held+0 verified" {
		t.Error(got)
	}
	clean(t, a)
}

// TestMovedPagesAreJudged: after a channel was split, what the new channel's first crawls deliver is judged. They were taken for judged, until the new channel had as many crawls as the old one.
func TestMovedPagesAreJudged(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob")
	for gen := channel.Gen(1); gen <= 4; gen++ {
		peer := "alice"
		if gen%2 == 0 {
			peer = "bob"
		}
		cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page { return []channel.Page{r.page("/a/x", home, channel.Changed)} })
		j.deliver(cl, gen)
	}
	m, err := (&channel.Scope{Kind: channel.Directory, Host: "http://site-1.example", Dirs: []string{"/a/"}}).Compile()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := a.Move(t.Context(), 1, 2, m); err != nil || n != 1 {
		t.Fatalf("%d pages moved, %v", n, err)
	}
	cl.now = cl.now.Add(time.Minute)
	task, body := taskOf(2, 1, "http://site-1.example", cl.now.Add(time.Hour))
	if err := a.Deposit(t.Context(), task, body); err != nil {
		t.Fatal(err)
	}
	got, err := a.Claim(t.Context(), "bob", task)
	if err != nil || got.Status != lease.Granted {
		t.Fatal(got.Status, err)
	}
	cl.now = cl.now.Add(time.Second)
	r := &runner{t, a, "bob", 2, 1, got.Resume.Seq, got.Resume.Head, nil}
	p := r.page("/a/x", forge, channel.Changed)
	p.URL = "http://site-1.example/a/x"
	r.put(channel.ChunkBody{Pages: []channel.Page{p}, Report: r.report(channel.Updated)})
	d, err := a.Delivery(t.Context(), 2, 1)
	if err != nil || len(d.Pages) != 1 || d.Pages[0].Record.Cur.State != trust.Verified {
		t.Errorf("of the new channel's first crawl this is to be judged: %+v, %v", d.Pages, err)
	}
}

// TestGoneIsNoWordOfAVersion has a page be gone for a while, as two peers find, and come back changed. Who found it gone has not said that it is as it was.
func TestGoneIsNoWordOfAVersion(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "carol", "dave")
	for i, peer := range []string{"alice", "bob", "carol", "dave", "alice"} {
		gen := channel.Gen(i + 1)
		cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page {
			switch peer {
			case "carol", "dave":
				return []channel.Page{{URL: r.url("/"), Status: 404, Change: channel.Gone, Fetched: cl.now, Header: []byte("HTTP/1.1 404 Not Found\r\n\r\n")}}
			}
			body := home
			if gen == 5 {
				body = news
			}
			return []channel.Page{r.page("/", body, channel.Changed)}
		})
		if gen < 5 {
			j.deliver(cl, gen)
		}
	}
	d, err := a.Delivery(t.Context(), 1, 5)
	if err != nil || len(d.Pages) != 1 {
		t.Fatalf("%+v, %v", d.Pages, err)
	}
	if by := d.Pages[0].Record.LastBy; by != trust.Peer(a.DelivererNumber("bob")) {
		t.Errorf("the last word of the version before is %d's, and not bob's", by)
	}
}

// TestVouchersFallAfterTheRecordForgot has two liars verify a forgery, and the page change twice since, so that its record has no room for the forgery any more. When the vouchers are suspended it is verified no
// more, and withdrawn when its deliverer is, too; a pardon gives back what the word is worth.
func TestVouchersFallAfterTheRecordForgot(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "mallory", "trudy")
	for i, c := range []struct{ peer, body string }{{"mallory", forge}, {"trudy", forge}, {"alice", home}, {"bob", home}, {"alice", news}, {"bob", news}} {
		cl.crawl(t, a, c.peer, channel.Gen(i+1), func(r *runner) []channel.Page { return []channel.Page{r.page("/", c.body, channel.Changed)} })
		j.deliver(cl, channel.Gen(i+1))
	}
	if got := j.record("/"); got != "verified+1 verified" {
		t.Fatal(got)
	}
	look := func(when, want string) {
		t.Helper()
		if _, index := lines(t, a, Filter{All: true}); index != want {
			t.Errorf("%s: %s, want %s", when, index, want)
		}
	}
	decide := func(do func(by trust.Peer) error, name string) {
		t.Helper()
		if err := do(trust.Peer(a.DelivererNumber(name))); err != nil {
			t.Fatal(err)
		}
		if err := a.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	suspend := func(by trust.Peer) error { return a.Suspend(t.Context(), by) }
	const honest = ", / verified, / verified, / verified, / verified"
	look("before", "/ verified, / verified"+honest)
	decide(suspend, "trudy")
	look("with the voucher suspended", "/ provisional, / provisional"+honest)
	decide(suspend, "mallory")
	look("with both suspended", strings.TrimPrefix(honest, ", ")+", / withdrawn, / withdrawn")
	decide(func(by trust.Peer) error { return a.Pardon(t.Context(), by) }, "trudy")
	look("with the voucher pardoned", "/ verified, / verified"+honest)
	clean(t, a)
}
