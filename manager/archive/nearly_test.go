package archive

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"shoal/channel"
	"shoal/manager/archive/ledger"
	"shoal/manager/trust"
)

// TestNearlyTheSameFallsWithItsDeliverer has a liar be the first to deliver a new text of a page that differs at each fetch, with something of its own in it. Others see nearly the same, so that it is verified.
// Once the liar is suspended it is withdrawn, also where the page's record has forgotten it: what the others saw does not say that all of it was there. What the liar delivered of another page, which
// others saw as it was, stays.
func TestNearlyTheSameFallsWithItsDeliverer(t *testing.T) {
	for _, c := range []struct {
		name   string
		topics string // of the page, in turn; three others come for each
	}{{"known to the record", "ab"}, {"forgotten by the record", "abcd"}} {
		t.Run(c.name, func(t *testing.T) {
			a, cl, _ := strangers(t)
			j := newJudge(t, a, true, "alice", "bob", "carol", "mallory")
			gen := channel.Gen(0)
			crawl := func(peer string, topic rune, own string) {
				gen++
				cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page {
					p := r.page("/", fmt.Sprintf("%s about %c, as of visit %d. %s", news, topic, gen, own), channel.Changed)
					p.Shingle = uint64(topic) * 0x9e3779b97f4a7c15
					return []channel.Page{p, r.page("/still", fmt.Sprintf("%s %c", home, topic), channel.Changed)}
				})
				j.deliver(cl, gen)
			}
			for _, topic := range c.topics {
				if topic == 'b' {
					crawl("mallory", topic, "forged")
				}
				for _, peer := range []string{"alice", "bob", "carol"} {
					crawl(peer, topic, "")
				}
			}
			by := trust.Peer(a.DelivererNumber("mallory"))
			var states = regexp.MustCompile(`"url":"http://site-1.example(/[a-z]*)".*"state":"([a-z]+)"`)
			look := func(when, want string) { // at what mallory delivered
				t.Helper()
				var is []string
				for _, l := range strings.Split(cdxLines(t, a, Filter{All: true}), "\n") {
					if m := states.FindStringSubmatch(l); m != nil && strings.Contains(l, ledger.DelivererName(uint64(by))) {
						is = append(is, m[1]+" "+m[2])
					}
				}
				if got := strings.Join(is, ", "); got != want {
					t.Errorf("%s what mallory delivered is %s, want %s", when, got, want)
				}
			}
			settled := func(err error) {
				t.Helper()
				if err == nil {
					err = a.Settle(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			look("at first", "/ verified, /still verified")
			settled(a.Suspend(t.Context(), by))
			look("with mallory suspended", "/ withdrawn, /still verified")
			settled(a.Pardon(t.Context(), by))
			look("with mallory pardoned", "/ verified, /still verified")
			clean(t, a)
		})
	}
}
