package archive

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/pages"
	"shoal/manager/trust"
)

// said has a peer deliver one version of the home page, and that judged.
func (j *judge) said(cl *clock, peer string, gen channel.Gen, body string) {
	j.t.Helper()
	cl.crawl(j.t, j.a, peer, gen, func(r *runner) []channel.Page { return []channel.Page{r.page("/", body, channel.Changed)} })
	j.deliver(cl, gen)
}

// suspend withdraws what a peer alone has seen.
func (j *judge) suspend(peer string) {
	j.t.Helper()
	if err := j.a.Suspend(j.t.Context(), trust.Peer(j.a.DelivererNumber(peer))); err != nil {
		j.t.Fatal(err)
	}
	if err := j.a.Settle(j.t.Context()); err != nil {
		j.t.Fatal(err)
	}
}

// purged purges a peer, and tells the page's state and the last change that readers are told.
func (j *judge) purged(peer string) (pages.Page, pages.Change) {
	j.t.Helper()
	if _, err := j.a.Withdraw(j.t.Context(), peer); err != nil {
		j.t.Fatal(err)
	}
	p, err := j.a.Page(j.t.Context(), "http://site-1.example/")
	if err != nil {
		j.t.Fatal(err)
	}
	changes, _, err := j.a.ChangesOf(j.t.Context(), "", 100, Filter{})
	if err != nil || len(changes) == 0 {
		j.t.Fatal(changes, err)
	}
	return p, changes[len(changes)-1]
}

// A purge does not bring back what is withdrawn of another deliverer: the page becomes the newest version that may be shown.
func TestPurgeBringsBackWhatMayBeShown(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "mallory")
	j.said(cl, "alice", 1, home)
	j.said(cl, "bob", 2, forge)
	j.suspend("bob")
	j.said(cl, "mallory", 3, news)
	p, last := j.purged("mallory")
	alice := DelivererName(a.DelivererNumber("alice"))
	if got := shown(t, a, p.URL); got != home || p.Deliverer != alice || p.Gone || p.State != "provisional" {
		t.Errorf("it shows %q; the page's state is %+v, want alice's, %s", got, p, alice)
	}
	if last.Event != pages.Withdrawn || last.Deliverer != alice || last.State != "provisional" {
		t.Errorf("the feed tells %+v", last)
	}
}

// Where all that a purge leaves of a page is withdrawn, the page shows nothing, and a pardon brings it back.
func TestPurgeLeavesWhatIsWithdrawn(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "bob", "mallory")
	j.said(cl, "bob", 1, home)
	j.said(cl, "mallory", 2, news)
	j.suspend("bob")
	p, last := j.purged("mallory")
	if got := shown(t, a, p.URL); got != "nothing" || p.State != "withdrawn" || !p.Gone || last.Event != pages.Withdrawn || last.Deliverer != "" {
		t.Errorf("it shows %q; the page's state is %+v, the feed tells %+v", got, p, last)
	}
	if err := a.Pardon(t.Context(), trust.Peer(a.DelivererNumber("bob"))); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := a.Page(t.Context(), p.URL)
	if got := shown(t, a, p.URL); err != nil || got != home || p.Gone || p.State != "provisional" {
		t.Errorf("after the pardon it shows %q; the page's state is %+v, %v", got, p, err)
	}
}

// A version that a purge brings back is believed as far as it was, and the page says the same of it as its capture does.
func TestPurgeBringsBackVerifiedPages(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "carol", "mallory")
	j.said(cl, "alice", 1, home)
	j.said(cl, "carol", 2, home)
	j.said(cl, "mallory", 3, forge)
	p, last := j.purged("mallory")
	c, err := a.Get(t.Context(), p.URL, time.Time{})
	if err != nil || string(c.Body) != home || c.State != "verified" || p.State != c.State || last.State != c.State {
		t.Errorf("the capture is %s, the page %s, the feed's line %s, %v; want verified", c.State, p.State, last.State, err)
	}
}

// A page whose last visit before a purged one found it unchanged is there, and not gone.
func TestPurgeBringsBackUnchangedPages(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "carol", "mallory")
	j.said(cl, "alice", 1, home)
	cl.crawl(t, a, "carol", 2, func(r *runner) []channel.Page {
		return []channel.Page{{URL: r.url("/"), Status: 304, Change: channel.Unchanged, Fetched: cl.now}}
	})
	j.deliver(cl, 2)
	j.said(cl, "mallory", 3, forge)
	p, last := j.purged("mallory")
	if got := shown(t, a, p.URL); got != home || p.Gone || p.Status != 200 || last.Status != 200 {
		t.Errorf("it shows %q; the page's state is %+v, the feed tells %+v", got, p, last)
	}
}

// What a suspended peer delivered, and only a purged one has vouched for, is not shown after the purge. A pardon of the suspended one brings it back.
func TestPurgeOfWhoVouched(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "mallory", "trudy")
	j.said(cl, "alice", 1, home)
	j.said(cl, "mallory", 2, forge)
	j.said(cl, "trudy", 3, forge)
	j.suspend("mallory")
	if got := shown(t, a, "http://site-1.example/"); got != forge {
		t.Fatalf("it shows %q while trudy vouches for what mallory delivered, want that", got)
	}
	p, last := j.purged("trudy")
	alice := DelivererName(a.DelivererNumber("alice"))
	if got := shown(t, a, p.URL); got != home || p.Deliverer != alice || p.State != "provisional" || last.Deliverer != alice {
		t.Errorf("it shows %q; the page's state is %+v, the feed tells %+v, want alice's, %s", got, p, last, alice)
	}
	if err := a.Pardon(t.Context(), trust.Peer(a.DelivererNumber("mallory"))); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := a.Page(t.Context(), p.URL)
	if got := shown(t, a, p.URL); err != nil || got != forge || p.State != "provisional" {
		t.Errorf("after the pardon it shows %q; the page's state is %+v, %v", got, p, err)
	}
}
