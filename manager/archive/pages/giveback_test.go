package pages

import (
	"testing"

	"shoal/manager/trust"
)

// What an arbiter saw otherwise, and what was held as its delivery was in doubt, does not come back with a pardon where the record has changed since the suspension.
func TestPardonGivesBackNothingRefuted(t *testing.T) {
	const p, q, r = 1, 2, 3
	version := func(by trust.Peer, s trust.State, doubt bool) trust.Version {
		return trust.Version{Digest: uint64(by), By: by, At: int64(by), State: s, Doubt: doubt}
	}
	for _, c := range []struct {
		name  string
		state trust.State // of p's version before the suspension
		doubt bool
		want  trust.State
	}{{"believed", trust.Provisional, false, trust.Provisional}, {"refuted", trust.Withdrawn, true, trust.Withdrawn}, {"held", trust.Held, true, trust.Held}} {
		was := trust.Page{Cur: version(q, trust.Verified, false), Prev: version(p, c.state, c.doubt)}
		g := was
		g.Withdraw(p)
		if g.Prev.State != trust.Withdrawn {
			t.Fatalf("%s: after the suspension it is %v", c.name, g.Prev.State)
		}
		g.LastBy = r // somebody came
		giveBack(&g, &was, p)
		if g.Prev.State != c.want || g.Cur != was.Cur {
			t.Errorf("%s: after the pardon it is %v, want %v", c.name, g.Prev.State, c.want)
		}
	}
}
