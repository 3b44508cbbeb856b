package overlay

import (
	"fmt"
	"testing"
	"time"

	"shoal/coords"
)

// A task that is to confirm a peer's word goes to a peer of another account and network, if there is one, and does not wait for others.
func TestConfirmedByAnother(t *testing.T) {
	for what, allies := range map[string]int{"one of five": 0, "with an account's other peer": 1, "of a network of three": 2, "of the only account": 4} {
		c := newCourt(t, 5, 0, JudgeConfig{})
		for i := range 5 {
			p := PeerRecord{ID: ID(fmt.Sprint("p", i)), Issued: c.now, Load: Load{Threads: 2, Slots: 10}, Coord: coords.Coord{Err: .1}}
			p.Coord.Vec[0] = 30 * float64(i)
			c.peers = append(c.peers, p)
		}
		v := ViewOf(c.now, c.peers)
		v.prefixes = make([]string, len(c.peers))
		for i := range allies + 1 {
			if what == "of a network of three" {
				v.prefixes[i] = "203.0.113.0/24"
			} else {
				c.peers[i].Account = "mallory"
			}
		}
		c.j.See(v)
		for i := range c.peers {
			c.hold(c.peers[i].ID, 0)
		}
		measured := coords.HostRecord{Samples: []coords.Sample{{Vantage: "p0", At: c.peers[0].Coord, RTT: time.Millisecond, When: c.now.Unix()}}}
		c.j.Locate(c.now, 1, "http://a", measured)
		ask := func(not ID) ID {
			t.Helper()
			got, verdict := c.j.Near(c.now, Ask{Host: 1, Share: NearShare, Pages: 10, Gap: time.Second, Not: not})
			if verdict != Go {
				t.Errorf("%s: %v", what, verdict)
			}
			return got.Peer
		}
		want := ID(fmt.Sprint("p", (allies+1)%5))
		if got := ask("p0"); got != want {
			t.Errorf("%s: %q is to confirm its word, want %q", what, got, want)
		}
		for _, not := range []ID{"", "gone", "p4"} {
			if got := ask(not); got != "p0" && (allies < 4 || not != "p4") {
				t.Errorf("%s: without %q: %q, want the nearest", what, not, got)
			}
		}
	}
}
