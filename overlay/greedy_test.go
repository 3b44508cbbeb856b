package overlay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/coords"
)

// siege is four honest peers and a liar in the middle, who says that it is 50 microseconds from every host, and has as many threads as it wants.
func siege(t *testing.T, threads uint8, stands standing) (c *court, hosts []channel.HostKey) {
	c = newCourt(t, 7, 0, JudgeConfig{})
	for i := range 5 {
		p := PeerRecord{ID: ID(fmt.Sprint("p", i)), Issued: c.now, Load: Load{Threads: 5, Slots: 5}, Coord: coords.Coord{Err: .1}}
		if i > 0 {
			p.Coord.Vec[i-1] = 40
		} else {
			p.Load.Threads = threads
		}
		c.peers = append(c.peers, p)
	}
	v := ViewOf(c.now, c.peers)
	v.stands = make([]standing, len(c.peers))
	v.stands[0] = stands
	c.j.See(v)
	for h := range channel.HostKey(60) {
		near := 1 + int(h)%4
		var r coords.HostRecord
		for i := range c.peers {
			rtt := 50 * time.Microsecond
			if i > 0 {
				at := c.peers[near].Coord
				at.Height = 5
				rtt = coords.Predict(c.peers[i].Coord, at)
			}
			r.Add(coords.Sample{Vantage: string(c.peers[i].ID), At: c.peers[i].Coord, RTT: rtt, When: c.now.Unix()})
		}
		c.j.Locate(c.now, h+1, fmt.Sprint("http://", h), r)
		hosts = append(hosts, h+1)
	}
	return c, hosts
}

// The times that a peer tells bring it no tasks that belong to others: others' measurements bound them.
func TestAToldTimeAttractsNothing(t *testing.T) {
	c, hosts := siege(t, 5, usual)
	for _, h := range hosts {
		got, verdict := c.j.Near(c.now, Ask{Host: h, Share: NearShare, Pages: 10, Gap: time.Second})
		if want := c.peers[1+int(h-1)%4].ID; verdict != Go || got.Peer != want {
			t.Errorf("host %d: %v, named %q, want %q, which is 5 ms away", h, verdict, got.Peer, want)
		}
	}
}

// What counts of a told time: honest ones as they are, those that others' times contradict half of what these leave.
func TestBelieve(t *testing.T) {
	at := func(x float64) coords.Coord { return coords.Coord{Vec: [coords.Dims]float64{x}, Err: .1} }
	ms := func(v float64) time.Duration { return duration(v) }
	for _, c := range []struct {
		what    string
		samples []coords.Sample
		want    []time.Duration
	}{
		{"honest", []coords.Sample{{Vantage: "a", At: at(0), RTT: ms(100)}, {Vantage: "b", At: at(50), RTT: ms(50)}, {Vantage: "c", At: at(90), RTT: ms(10)}, {Vantage: "d", At: at(100), RTT: ms(1)}},
			[]time.Duration{ms(100), ms(50), ms(10), ms(1)}},
		{"a liar", []coords.Sample{{Vantage: "a", At: at(0), RTT: ms(.05)}, {Vantage: "b", At: at(50), RTT: ms(50)}, {Vantage: "c", At: at(90), RTT: ms(10)}, {Vantage: "d", At: at(-20), RTT: ms(120)}},
			[]time.Duration{ms(0.05), ms(50), ms(10), ms(120)}},
		{"a liar beside the others", []coords.Sample{{Vantage: "a", At: at(0), RTT: ms(.05)}, {Vantage: "b", At: at(1), RTT: ms(99)}, {Vantage: "c", At: at(2), RTT: ms(98)}, {Vantage: "d", At: at(10), RTT: ms(90)}},
			[]time.Duration{ms(48), ms(99), ms(98), ms(90)}},
		{"too few to tell", []coords.Sample{{Vantage: "a", At: at(0), RTT: ms(.05)}, {Vantage: "b", At: at(1), RTT: ms(99)}, {Vantage: "c", At: at(2), RTT: ms(98)}},
			[]time.Duration{ms(.05), ms(99), ms(98)}},
	} {
		believe(c.samples)
		for i := range c.samples {
			if got := c.samples[i].RTT; (got - c.want[i]).Abs() > time.Microsecond {
				t.Errorf("%s: %s counts as %v away, want %v", c.what, c.samples[i].Vantage, got, c.want[i])
			}
		}
	}
}

// One peer, account or prefix holds little more than twice its fair share of all tasks, whatever it says, once that is above shareLeast; the tasks that it does not get go to others at
// once.
func TestShares(t *testing.T) {
	for _, what := range []string{"peer", "account", "prefix"} {
		c := newCourt(t, 3, 0, JudgeConfig{})
		for i := range 20 {
			p := PeerRecord{ID: ID(fmt.Sprint("p", i)), Issued: c.now, Load: Load{Threads: 4, Slots: 10}, Coord: coords.Coord{Err: .1}}
			p.Coord.Vec[0] = 100 + float64(i)
			c.peers = append(c.peers, p)
		}
		mine := c.peers[:1]
		if what != "peer" {
			mine = c.peers[:5]
		}
		v := ViewOf(c.now, c.peers)
		v.prefixes = make([]string, len(c.peers))
		for i := range mine {
			mine[i].Coord.Vec[0] = 0
			switch mine[i].Load.Threads = 255; what {
			case "account":
				mine[i].Account = "mallory"
			case "prefix":
				v.prefixes[i] = "203.0.113.0/24"
			}
		}
		c.j.See(v)
		var r coords.HostRecord
		for i := range mine {
			r.Add(coords.Sample{Vantage: string(mine[i].ID), At: mine[i].Coord, RTT: time.Millisecond, When: c.now.Unix()})
		}
		c.j.Locate(c.now, 1, "http://a", r)
		all, held := 0, 0
		for range 60 {
			got, verdict := c.j.Near(c.now, Ask{Host: 1, Share: NearShare, Pages: 10, Gap: time.Second})
			if verdict != Go {
				break
			}
			all++
			if slices.ContainsFunc(mine, func(p PeerRecord) bool { return p.ID == got.Peer }) {
				held++
			}
			c.hold(got.Peer, c.held[got.Peer]+1)
			threads := 0
			for i := range c.peers[len(mine):] {
				threads += int(c.peers[len(mine)+i].Load.Threads)
			}
			fair := float64(all) * float64(16*len(mine)) / float64(16*len(mine)+threads)
			if most := max(shareLeast, 2.2*fair+2); float64(held) > most {
				t.Fatalf("%s: holds %d of %d tasks, at most %.0f", what, held, all, most)
			}
		}
		if all < 30 {
			t.Errorf("%s: only %d tasks went, since they wait for who has its share", what, all)
		}
	}
}

// No task waits for a peer that has delivered nothing yet, once others have; nor for one that is on trial, which gets one at a time.
func TestNoTaskWaitsForWhoHasNotDelivered(t *testing.T) {
	for _, c := range []struct {
		stands  standing
		held    int
		verdict Verdict
	}{{usual, 6, Full}, {unknown, 6, Go}, {trial, 1, Go}, {avoided, 0, Go}} {
		w := newCourt(t, 9, 0, JudgeConfig{})
		for i := range 5 {
			p := PeerRecord{ID: ID(fmt.Sprint("p", i)), Issued: w.now, Load: Load{Threads: 5, Slots: 5}, Coord: coords.Coord{Err: .1}}
			p.Coord.Vec[0] = 50 * float64(i)
			w.peers = append(w.peers, p)
		}
		v := ViewOf(w.now, w.peers)
		v.stands = []standing{c.stands, usual, usual, usual, usual}
		w.j.See(v)
		var r coords.HostRecord
		r.Add(coords.Sample{Vantage: "p0", At: w.peers[0].Coord, RTT: time.Millisecond, When: w.now.Unix()})
		w.j.Locate(w.now, 1, "http://a", r)
		for i := range w.peers[1:] { // so that p0 has no more than its share
			w.hold(w.peers[1+i].ID, 5)
		}
		w.hold("p0", c.held)
		if got, verdict := w.j.Near(w.now, Ask{Host: 1, Share: NearShare}); verdict != c.verdict || got.Peer == "p0" {
			t.Errorf("standing %d with %d tasks: %v, named %q", c.stands, c.held, verdict, got.Peer)
		}
		if c.stands == trial {
			w.hold("p0", 0)
			if got, _ := w.j.Near(w.now, Ask{Host: 1, Share: NearShare}); got.Peer != "p0" {
				t.Errorf("named %q, want the one on trial, which has no task", got.Peer)
			}
		}
	}
}

// Doubts grow with each waste, of the account too; a burst is one; a delivery takes most away; in the end they fade.
func TestDoubtGrowsAndFades(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	n := Node{rng: rand.New(rand.NewPCG(1, 1)), doubts: map[ID]doubt{}, counts: map[string]int64{}, table: newTable(&coords.Coord{}, 100*time.Hour, 0)}
	for _, id := range []ID{"a", "b", "honest"} {
		n.table.hear(now, &PeerRecord{ID: id, Seq: 1, Issued: now, Account: map[bool]string{true: "mallory", false: "h"}[id != "honest"]})
	}
	stands := func(id ID) standing { return n.standing(now, &n.table.entries[n.table.find(id)]) }
	want := func(id ID, s standing, when string) {
		t.Helper()
		if got := stands(id); got != s {
			t.Errorf("%s: %s stands %d, want %d", when, id, got, s)
		}
	}
	want("a", unknown, "new")
	took := now
	now = now.Add(time.Minute)
	for range 6 {
		n.Doubt(now, "a", took)
	}
	want("a", avoided, "after a burst")
	now = now.Add(doubtFirst)
	want("a", trial, "after a burst and a while")
	n.Doubt(now, "a", now)
	now = now.Add(doubtFirst)
	want("a", avoided, "the second time counts double")
	now = now.Add(doubtFirst)
	want("a", trial, "the second time is over")
	want("b", unknown, "of the same account")
	for range accountDoubts {
		now = now.Add(time.Second)
		n.Doubt(now, "a", now)
	}
	want("b", avoided, "of an account that wastes")
	n.Trust(now, "a")
	want("b", unknown, "after a delivery of the account")
	n.Trust(now, "a")
	want("a", usual, "after two deliveries")
	n.Trust(now, "honest")
	now = now.Add(time.Minute)
	n.Doubt(now, "honest", now)
	want("honest", trial, "first waste after deliveries")
	now = now.Add(doubtFades)
	want("honest", usual, "much later")
}
