package desk

import (
	"strings"
	"testing"
	"time"

	"shoal/manager"
	"shoal/manager/trust"
)

// A pardon says what it gives back, and what it does not.
func TestDoubted(t *testing.T) {
	for d, want := range map[Doubt]string{
		{}:                                 "",
		{Others: 1}:                        "The next crawl is for another peer",
		{Others: 4}:                        "The next 4 crawls are for other peers",
		{Watched: time.Unix(1e9, 0).UTC()}: "On watch until 9 September 2001",
	} {
		if says := d.Doubted(); (says == "") != (want == "") || !strings.HasPrefix(says, want) {
			t.Errorf("%+v: %q, want %q", d, says, want)
		}
	}
}

func TestPardonedSays(t *testing.T) {
	for _, c := range []struct {
		p    Pardoned
		want string
	}{
		{Pardoned{Captures: 1}, "given back; the archive keeps 1 capture by it."},
		{Pardoned{Captures: 7, More: true}, "more than 7 captures"},
		{Pardoned{}, "nothing that it delivered is kept"},
		{Pardoned{PeerTrust: PeerTrust{Others: []string{"d-1", "d-2", "d-3", "d-4", "d-5", "d-6"}}, Captures: 2}, "as 6 peers of its account must be pardoned too: d-1, d-2, d-3, d-4, d-5 and 1 more."},
	} {
		if got := c.p.Says(); !strings.Contains(got, c.want) {
			t.Errorf("%+v says %q, without %q", c.p, got, c.want)
		}
	}
}

// Only who is banned by hand is said to be so, not others of an account that is refused for what one of its peers delivered.
func TestBarredByHand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    PeerTrust
		is   bool
		hand []string
	}{
		{PeerTrust{Peer: "a", Account: "x"}, true, []string{"a"}}, {PeerTrust{Peer: "a", Account: "x"}, true, []string{"x"}},
		{PeerTrust{Peer: "a", Account: "x"}, false, []string{"b", "y", ""}}, {PeerTrust{Deliverer: "d-1"}, false, []string{"a", ""}}, {PeerTrust{Peer: "a"}, false, nil},
	} {
		if got := barred(c.p, c.hand).Barred; got != c.is {
			t.Errorf("%+v with %q banned by hand: %v", c.p, c.hand, got)
		}
	}
}

// A peer that an operator has banned is not shown as if nothing were against it.
func TestStandsSaysWhoBanned(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]PeerTrust{
		"established":                              {Standing: "established"},
		"established, banned by an operator":       {Standing: "established", Barred: true},
		"newcomer, suspect, banned by an operator": {Standing: "newcomer", Suspect: true, Barred: true},
	} {
		if got := p.Stands(); got != want {
			t.Errorf("%+v stands as %q, want %q", p, got, want)
		}
	}
}

// TestWhatFailedIsSaid tells of decisions about peers that could not be carried out, of all peers and of one, and of cases that were pardoned.
func TestWhatFailedIsSaid(t *testing.T) {
	all := []manager.Undone{{Peer: 7, What: "it is to be a member again", Why: "the disk is full", Since: time.Unix(1e9, 0), Machine: "b"}}
	for _, says := range [][]string{trustOf(&manager.TrustInfo{Undone: all}).Says, peerTrustOf(&manager.PeerTrust{Undone: all}).Undone} {
		if len(says) == 0 || !strings.Contains(says[0], "d-000000000007") || !strings.Contains(says[0], "the disk is full") || !strings.Contains(says[0], "on b") || !strings.Contains(says[0], "2001-09-09") {
			t.Errorf("%q", says)
		}
	}
	k := Case{Loser: "d-1", Amount: 2, Pardoned: time.Unix(1e9, 0)}
	if says := k.Outcome(); !strings.Contains(says, "pardoned on 9 September 2001") {
		t.Error(says)
	}
}

// TestBlindSays tells of the arbiter's own place and of its proxies.
func TestBlindSays(t *testing.T) {
	says := blindSays([]manager.Blind{{Vantage: 0, Hosts: 4, Why: "no route", All: true}, {Vantage: 2, Hosts: 9, Why: "refused", Machine: "b"}})
	if len(says) != 2 || !strings.Contains(says[0], "nothing from the last 4 hosts") || !strings.Contains(says[0], "(no route). As long as") || !strings.Contains(says[1], "on b itself could fetch nothing through proxy 2 of --arbiter-via from the last 9 hosts") {
		t.Errorf("%q", says)
	}
}

// TestWhoIsAboveTheLimitIsTold lets scores count in a network where two peers have reached the score by then: the operator is told that they take tasks still. In
// shadow, and of those that are suspended, there is nothing to tell.
func TestWhoIsAboveTheLimitIsTold(t *testing.T) {
	i := manager.TrustInfo{Standings: map[trust.Standing]int{}}
	i.Rules.T = 18
	for _, p := range []trust.Info{{Standing: trust.Established, Scores: [3]float64{18, 0, 0}}, {Standing: trust.Newcomer, Scores: [3]float64{0, 0, 30}}, {Standing: trust.Suspended, Scores: [3]float64{20, 0, 0}}, {Standing: trust.Established, Scores: [3]float64{17.9, 0, 0}}} {
		i.Count(&p)
	}
	told := func() bool {
		return strings.Contains(strings.Join(trustOf(&i).Says, "\n"), "2 peers take tasks still with a score of 18 or more")
	}
	if told() {
		t.Error("told in shadow")
	}
	i.Rules.Enforce = true
	if !told() {
		t.Errorf("%q", trustOf(&i).Says)
	}
}

// Where newcomers have no share of tasks, nobody who joins is ever tried: that is said, and not where they have one.
func TestNewcomersWithoutAShare(t *testing.T) {
	const never = "no newcomer will ever be tried"
	for _, c := range []struct {
		of   Trust
		want bool
	}{{Trust{}, true}, {Trust{TrustRules: TrustRules{Enforce: true}}, true}, {Trust{TrustRules: TrustRules{Enforce: true, Newcomers: .03}}, false}} {
		if says := strings.Join(trustSays(&c.of), "\n"); strings.Contains(says, never) != c.want {
			t.Errorf("newcomers have %v of tasks: %s", c.of.TrustRules.Newcomers, says)
		}
	}
}
