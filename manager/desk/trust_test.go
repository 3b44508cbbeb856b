package desk

import (
	"strings"
	"testing"
)

// A pardon says what it gives back, and what it does not.
func TestPardonedSays(t *testing.T) {
	for _, c := range []struct {
		p    Pardoned
		want string
	}{
		{Pardoned{Captures: 1}, "given back: 1 capture of it."},
		{Pardoned{Captures: 7, More: true}, "more than 7 captures"},
		{Pardoned{}, "nothing that it delivered is kept"},
		{Pardoned{PeerTrust: PeerTrust{Others: []string{"d-1", "d-2", "d-3", "d-4", "d-5", "d-6"}}, Captures: 2}, "as 6 peers of its account must be pardoned too: d-1, d-2, d-3, d-4, d-5 and 1 more."},
	} {
		if got := c.p.Says(); !strings.Contains(got, c.want) {
			t.Errorf("%+v says %q, without %q", c.p, got, c.want)
		}
	}
}
