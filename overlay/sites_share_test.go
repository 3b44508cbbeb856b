package overlay

import (
	"fmt"
	"testing"
	"time"

	"shoal/channel"
	"shoal/coords"
)

// Shares keep no task from the peers near it while all peers are honest: all hosts of three sites are due at once, one site's after another's, and
// each of them goes to its own site, though the peers of a site are of one network. So do the last ones, when most have ended.
func TestSharesLeaveTasksNear(t *testing.T) {
	for _, size := range []struct{ peers, hosts, out int }{{3, 8, 100}, {3, 16, 100}, {6, 36, 200}, {3, 16, 6}, {6, 60, 12}} {
		c := newCourt(t, 11, 0, JudgeConfig{Vantages: 3})
		var prefixes []string
		for i := range 3 * size.peers {
			p := PeerRecord{ID: ID(fmt.Sprint("p", i)), Issued: c.now, Load: Load{Threads: 5, Slots: 5}, Coord: coords.Coord{Err: .1, Height: .1}}
			p.Coord.Vec[i/size.peers] = 40
			c.peers = append(c.peers, p)
			prefixes = append(prefixes, fmt.Sprintf("11.0.%d.0/24", i/size.peers))
		}
		v := ViewOf(c.now, c.peers)
		v.prefixes = prefixes
		c.j.See(v)
		site := func(h int) int { return h / size.hosts }
		ask := func(h int) (Named, Verdict) {
			return c.j.Near(c.now, Ask{Host: channel.HostKey(h + 1), Share: NearShare, Pages: 1, Gap: time.Second})
		}
		for h := range 3 * size.hosts {
			c.j.Locate(c.now, channel.HostKey(h+1), fmt.Sprint("http://", h), coords.HostRecord{})
			if _, verdict := ask(h); verdict != Unmeasured {
				t.Fatalf("%v before it is measured", verdict)
			}
		}
		near := 0
		var out []ID
		for h := range 3 * size.hosts {
			var r coords.HostRecord
			for i := range c.peers {
				r.Add(coords.Sample{Vantage: string(c.peers[i].ID), At: c.peers[i].Coord, RTT: coords.Predict(c.peers[i].Coord, c.peers[site(h)*size.peers].Coord), When: c.now.Unix()})
			}
			c.j.Locate(c.now, channel.HostKey(h+1), fmt.Sprint("http://", h), r)
			got, verdict := ask(h)
			if verdict != Go {
				continue
			}
			c.hold(got.Peer, c.held[got.Peer]+1)
			if out = append(out, got.Peer); len(out) > size.out {
				c.hold(out[0], c.held[out[0]]-1)
				out = out[1:]
			}
			for i := range size.peers {
				if got.Peer == c.peers[site(h)*size.peers+i].ID {
					near++
				}
			}
		}
		want := 3 * min(size.hosts, size.peers*Holds(c.peers[0].Load))
		if size.out < 3*size.hosts { // there is always room
			want = 3 * size.hosts
		}
		if near < want*9/10 {
			t.Errorf("%d of %d tasks went to the peers near them, which have room for %d", near, 3*size.hosts, want)
		}
	}
}
