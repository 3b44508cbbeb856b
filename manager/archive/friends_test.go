package archive

import (
	"fmt"
	"testing"

	"shoal/channel"
	"shoal/manager/trust"
)

// TestFriendsFallTogether has a peer vouch for what another one forged, and both be suspended, in either order, or with the last verdict on its way: the version before
// is shown. A pardon of one gives back what that one's word is worth.
func TestFriendsFallTogether(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, first := range []string{"mallory", "trudy"} {
			a, cl, _ := strangers(t)
			j := newJudge(t, a, true, "alice", "mallory", "trudy")
			page := func(body string) func(r *runner) []channel.Page {
				return func(r *runner) []channel.Page { return []channel.Page{r.page("/", body, channel.Changed)} }
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
			suspend := func(name string) {
				decide(func(by trust.Peer) error { return a.Suspend(t.Context(), by) }, name)
			}
			pardon := func(name string) {
				decide(func(by trust.Peer) error { return a.Pardon(t.Context(), by) }, name)
			}
			for i, c := range []struct{ peer, body string }{{"alice", home}, {"mallory", forge}, {"trudy", forge}} {
				cl.crawl(t, a, c.peer, channel.Gen(i+1), page(c.body))
				if i < 2 || !late {
					j.deliver(cl, channel.Gen(i+1))
				}
			}
			second := map[string]string{"mallory": "trudy", "trudy": "mallory"}[first]
			suspend(first)
			suspend(second)
			if late {
				j.deliver(cl, 3)
			}
			look := func(when, want string) {
				t.Helper()
				d, err := a.Record(t.Context(), 1, channel.URLHash("http://site-1.example/"))
				if err != nil {
					t.Fatal(err)
				}
				got := "nothing"
				if v := d.Record.Shown(); v != nil {
					got = fmt.Sprintf("%s, %v", map[string]string{home: "home", forge: "forged"}[shown(t, a, "http://site-1.example/")], v.State)
				}
				if got != want {
					t.Errorf("%s first, late %v: %s it shows %s, want %s", first, late, when, got, want)
				}
			}
			look("while both are suspended", "home, provisional")
			if late {
				continue
			}
			pardon("trudy")
			look("after trudy's pardon", "forged, verified")
			pardon("mallory")
			look("after both pardons", "forged, verified")
		}
	}
}
