package archive

import (
	"fmt"
	"testing"

	"shoal/channel"
	"shoal/manager/trust"
)

// TestSettledPagesAreQuiet crawls two pages until three accounts saw them alike. From then on a visit that sees them so says nothing of them but that, until one
// of them changes, or who vouched for it is suspended.
func TestSettledPagesAreQuiet(t *testing.T) {
	a, cl, _ := strangers(t)
	peers := []string{"alice", "bob", "carol", "dave", "erin"}
	j := newJudge(t, a, true, peers...)
	gen := channel.Gen(0)
	crawl := func(peer, front string, change channel.Change) string {
		t.Helper()
		gen++
		cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page {
			second := channel.Unchanged
			if gen == 1 {
				second = channel.New
			}
			return []channel.Page{r.page("/", front, change), r.page("/news", news, second)}
		})
		d, _ := j.deliver(cl, gen)
		quiet := 0
		for _, q := range d.Quiet {
			quiet += len(q.URLs)
			if q.Last == trust.Peer(a.DelivererNumber(peer)) {
				t.Errorf("the visit before is said to be %s's own", peer)
			}
		}
		return fmt.Sprint(len(d.Pages), " ", quiet)
	}
	for i, c := range []struct {
		peer, front string
		change      channel.Change
		want        string // pages whose records are needed, and others
		then        string // record of the front page
	}{
		{"alice", home, channel.New, "2 0", "provisional+0 none"},
		{"bob", home, channel.Unchanged, "2 0", "verified+1 none"},
		{"carol", home, channel.Unchanged, "2 0", "verified+2 none"},
		{"dave", home, channel.Unchanged, "0 2", "verified+2 none"},
		{"alice", home, channel.Unchanged, "0 2", "verified+2 none"},
		{"bob", forge, channel.Changed, "1 1", "provisional+0 verified"},
		{"erin", forge, channel.Unchanged, "1 1", "verified+1 verified"},
		{"carol", home, channel.Changed, "1 1", "verified+2 contested"}, // it went back, and is settled as it was
		{"alice", home, channel.Unchanged, "0 2", "verified+2 contested"},
		{"dave", home, channel.Changed, "0 2", "verified+2 contested"}, // the same content, sent whole
	} {
		if got, then := crawl(c.peer, c.front, c.change), j.record("/"); got != c.want || then != c.then {
			t.Fatalf("crawl %d, by %s: %s, then %s; want %s, then %s", i, c.peer, got, then, c.want, c.then)
		}
	}
	if err := a.Suspend(t.Context(), trust.Peer(a.DelivererNumber("bob"))); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := crawl("erin", home, channel.Unchanged); got != "2 0" {
		t.Errorf("after who vouched for it is suspended: %s", got)
	}
	if got := j.record("/"); got != "verified+2 contested" {
		t.Errorf("then: %s", got)
	}
	if got := crawl("alice", home, channel.Unchanged); got != "0 2" {
		t.Errorf("settled again: %s", got)
	}
}
