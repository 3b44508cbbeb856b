package trust

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shoal/manager/trust/compare"
)

// TestCheckerVouchesForWhatItChecked has a checker answer after another peer has delivered a new version: it saw what the delivery says that it was to check, and
// vouches for no other.
func TestCheckerVouchesForWhatItChecked(t *testing.T) {
	w := newStage(t, 1)
	for n := range 3 {
		w.m.Join(Peer(n+1), Account(n+1), Prefix(n+1))
		w.m.Vouch(Peer(n + 1))
	}
	w.deliver(t, 1, 9, []string{"apple"})
	asked := w.audit[url(9, 0)]
	w.now = w.now.Add(time.Minute)
	w.deliver(t, 2, 9, []string{"fake"})
	e := w.evidence(asked, "apple", "apple")
	w.say(w.m.Answered(w.now, 3, &e))
	if g := w.page(9, 0); g.Cur.By != 2 || g.Cur.State != Provisional || g.Cur.Seen() != 0 {
		t.Errorf("who saw the version before vouches for %+v", g.Cur)
	}
	if p, _ := w.m.Peer(1); p.Checks != 1 {
		t.Errorf("the delivery that was checked has %d valid checks", p.Checks)
	}
	e = w.evidence(w.audit[url(9, 0)], "fake", "fake")
	w.say(w.m.Answered(w.now, 3, &e))
	if g := w.page(9, 0); g.Cur.State != Verified {
		t.Errorf("who saw this version leaves it %+v", g.Cur)
	}
}

// TestWatchWaitsForItsOwnChecks has checks of the delivery before come late: they do not have the one accepted that is held on a watched channel.
func TestWatchWaitsForItsOwnChecks(t *testing.T) {
	w := newStage(t, 1)
	for n := range 4 {
		w.m.Join(Peer(n+1), Account(n+1), Prefix(n+1))
		w.m.Vouch(Peer(n + 1))
	}
	words := []string{"apple", "pear", "plum", "fig", "nut"}
	w.deliver(t, 1, 9, words)
	w.m.loser(w.now, 9, 4, true)
	w.now = w.now.Add(time.Minute)
	before := map[uint64]Case{}
	for n := range words {
		before[url(9, n)] = Case{Reason: LostAudit, URL: url(9, n), Channel: 9, Accused: 1, At: w.now.Add(-time.Minute).Unix()}
	}
	w.deliver(t, 2, 9, []string{"a", "b", "c", "d", "e"})
	for n, word := range words {
		e := w.evidence(before[url(9, n)], word, word)
		w.say(w.m.Answered(w.now, 3, &e))
	}
	if g := w.page(9, 0); g.Cur.By != 2 || g.Cur.State != Held {
		t.Errorf("checks of another delivery leave the held one %+v", g.Cur)
	}
}

// TestBeginningOfAFileVouchesForNothing has checkers fetch a feed that differs at each fetch, of which the delivery's end, or theirs, did not come: each is the beginning of the
// other one, and what is missing could be anything.
func TestBeginningOfAFileVouchesForNothing(t *testing.T) {
	var feed strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&feed, "<item>%d</item>", i)
	}
	of := func(body string, short bool) *compare.Features {
		return compare.Of(compare.Fetch{URL: "https://a.example/feed", Status: 200, Type: "application/rss+xml", Body: []byte(body), Short: short})
	}
	whole, part := of(feed.String(), false), of(feed.String()[:100_000], true)
	for name, c := range map[string]struct {
		delivered, checked *compare.Features
		want               State
	}{
		"a part is checked":     {part, whole, Provisional},
		"a part is what checks": {whole, part, Provisional},
		"all of it":             {whole, whole, Verified},
	} {
		w := newStage(t, 1)
		for n := range 4 {
			w.m.Join(Peer(n+1), Account(n+1), Prefix(n+1))
			w.m.Vouch(Peer(n + 1))
		}
		w.deliver(t, 1, 9, []string{"feed"})
		w.page(9, 0).Dynamic = 3
		for checker := Peer(2); checker <= 3; checker++ {
			e := w.evidence(w.audit[url(9, 0)], "feed", "feed")
			e.Delivered, e.Checked = c.delivered, c.checked
			if acts := w.m.Answered(w.now, checker, &e); len(acts) > 0 {
				t.Errorf("%s: %+v", name, acts)
			}
		}
		if got := w.page(9, 0).Cur.State; got != c.want {
			t.Errorf("%s: the version is %v, want %v", name, got, c.want)
		}
	}
}

// TestFriendsWordDoesNotOutlastTheVersion has a liar forge two pages of a host, of which one loses before the arbiter; a friend had vouched for the other. When that page changes, nobody will
// contradict the forgery any more: it goes down as provisional. What two accounts vouched for, and what others delivered, stays verified.
func TestFriendsWordDoesNotOutlastTheVersion(t *testing.T) {
	for _, c := range []struct {
		name   string
		loses  bool
		others int // that vouch beside the friend
		want   State
	}{{"lost there", true, 0, Provisional}, {"lost there, and a stranger vouched", true, 1, Verified}, {"never lost", false, 0, Verified}} {
		t.Run(c.name, func(t *testing.T) {
			w := newStage(t, 1)
			for n := range 5 {
				w.m.Join(Peer(n+1), Account(n+1), Prefix(n+1))
				w.m.Vouch(Peer(n + 1))
			}
			next := func(p Peer, words ...string) {
				w.now = w.now.Add(24 * time.Hour)
				w.deliver(t, p, 9, words)
			}
			next(1, "fake", "lie")
			lie := Case{Reason: LostAudit, URL: url(9, 1), Channel: 9, Domain: 9, Accused: 1, Accuser: 3, At: w.now.Unix()}
			next(2, "fake", "lie")
			for n := range c.others {
				next(Peer(4+n), "fake", "lie")
			}
			if c.loses {
				w.cases[url(9, 1)] = lie
				w.rule(t, 9, 1, []string{"lie", "true", "true"})
			}
			if g := w.page(9, 0); g.Cur.State != Verified {
				t.Fatalf("before the page changes the version is %+v", g.Cur)
			}
			next(3, "new", "true")
			if g := w.page(9, 0); g.Prev.By != 1 || g.Prev.State != c.want {
				t.Errorf("once the page has changed the version before is %+v, want it %v", g.Prev, c.want)
			}
		})
	}
}
