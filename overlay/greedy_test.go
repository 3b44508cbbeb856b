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
type siege struct {
	*court
	hosts []channel.HostKey
}

// newSiege begins one whose peers know their places up to an error: 0 of the way with 1 or more, all of it with 0.1.
func newSiege(t *testing.T, threads uint8, err float64) *siege {
	s := &siege{court: newCourt(t, 7, 0, JudgeConfig{})}
	for i := range 5 {
		s.peers = append(s.peers, PeerRecord{ID: ID(fmt.Sprint("p", i)), Issued: s.now, Load: Load{Threads: 5, Slots: 5}})
	}
	s.peers[0].Load.Threads = threads
	for h := range channel.HostKey(60) {
		s.hosts = append(s.hosts, h+1)
	}
	s.learn(err)
	return s
}

// learn has peers know where they are, and the judge the hosts by what they measured, or say that they did.
func (s *siege) learn(err float64) {
	place := func(i int, known float64) (c coords.Coord) {
		if c.Err = err; i > 0 {
			c.Vec[i-1] = 40 * known
		}
		return c
	}
	for i := range s.peers {
		s.peers[i].Coord = place(i, max(0, 1.1-err))
	}
	v := ViewOf(s.now, s.peers)
	v.stands = slices.Repeat([]standing{unknown}, len(s.peers))
	s.j.See(v)
	for _, h := range s.hosts {
		at := place(s.nearest(h), 1)
		at.Height = 5
		var r coords.HostRecord
		for i := range s.peers {
			rtt := 50 * time.Microsecond
			if i > 0 {
				rtt = coords.Predict(place(i, 1), at)
			}
			r.Add(coords.Sample{Vantage: string(s.peers[i].ID), At: s.peers[i].Coord, RTT: rtt, When: s.now.Unix()})
		}
		s.j.Locate(s.now, h, fmt.Sprint("http://", h), r)
	}
}

// nearest is the peer that is 5 ms from a host.
func (s *siege) nearest(h channel.HostKey) int { return 1 + int(h-1)%4 }

// The times that a peer tells bring it no tasks that belong to others: others' measurements bound them.
func TestAToldTimeAttractsNothing(t *testing.T) {
	s := newSiege(t, 5, .1)
	for _, h := range s.hosts {
		got, verdict := s.j.Near(s.now, Ask{Host: h, Share: NearShare, Pages: 10, Gap: time.Second})
		if want := s.peers[s.nearest(h)].ID; verdict != Go || got.Peer != want {
			t.Errorf("host %d: %v, named %q, want %q, which is 5 ms away", h, verdict, got.Peer, want)
		}
	}
}

// run lets more tasks be due for ten minutes than the honest peers can do, who take a minute for each. The liar takes so long for one that it says that
// it does; 0: it takes none. It returns how many the honest peers have ended, and the most that the liar had at a time.
func (s *siege) run(liarTakes time.Duration) (honest, most int) {
	liar := s.peers[0].ID
	ends, out := map[time.Time][]ID{}, map[channel.HostKey]time.Time{}
	for step := range 1200 {
		s.now = s.now.Add(500 * time.Millisecond)
		for _, id := range ends[s.now] {
			s.hold(id, s.held[id]-1)
			if id != liar {
				honest++
			}
		}
		if step%len(s.hosts) == 0 {
			s.j.Looked()
		}
		host := s.hosts[step%len(s.hosts)]
		if s.now.Before(out[host]) {
			continue
		}
		named, verdict := s.j.Near(s.now, Ask{Host: host, Share: NearShare, Pages: 10, Gap: time.Second})
		if verdict != Go {
			continue
		}
		took := time.Minute
		if named.Peer == liar {
			took = liarTakes
		}
		s.hold(named.Peer, s.held[named.Peer]+1)
		most = max(most, s.held[liar])
		out[host] = s.now.Add(took)
		ends[s.now.Add(took)] = append(ends[s.now.Add(took)], named.Peer)
	}
	return honest, most
}

// While a network is young nobody knows where peers are, and others' times bound no lie. Then shares do: the liar has no more than twice what is fair of
// the tasks that are out, wait, or ended of late, though it says that it has 255 threads, and the honest peers end as many as without it. As soon as
// peers know roughly where they are, it attracts nothing any more.
func TestALiarInAYoungNetworkHasItsShare(t *testing.T) {
	alone, _ := newSiege(t, 0, coords.MaxErr).run(0)
	for _, err := range []float64{coords.MaxErr, 1, .7, .55} {
		for _, takes := range []time.Duration{time.Second, time.Minute, 5 * time.Minute, time.Hour} {
			s := newSiege(t, 255, err)
			honest, most := s.run(takes)
			t.Logf("error %v, a task in %v: honest peers end %d tasks, without the liar %d; it has %d at most", err, takes, honest, alone, most)
			if err < .6 && most > 0 {
				t.Errorf("error %v: the liar had %d tasks at a time, though others' times bound its own", err, most)
			}
			if 100*honest < 95*alone {
				t.Errorf("error %v, a task in %v: honest peers end %d tasks, without the liar %d", err, takes, honest, alone)
			}
		}
	}
}

// What counts of a told time: honest ones as they are, those that others' times contradict half of what these leave. While peers do not know where
// they are, their times contradict nothing.
func TestBelieve(t *testing.T) {
	unsure := func(x, err float64) coords.Coord {
		return coords.Coord{Vec: [coords.Dims]float64{x}, Err: err}
	}
	at := func(x float64) coords.Coord { return unsure(x, .1) }
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
		{"a liar that says it does not know where it is", []coords.Sample{{Vantage: "a", At: unsure(0, coords.MaxErr), RTT: ms(.05)}, {Vantage: "b", At: at(1), RTT: ms(99)}, {Vantage: "c", At: at(2), RTT: ms(98)}, {Vantage: "d", At: at(10), RTT: ms(90)}},
			[]time.Duration{ms(48), ms(99), ms(98), ms(90)}},
		{"a liar, as unsure as settled peers are", []coords.Sample{{Vantage: "a", At: unsure(0, .3), RTT: ms(.05)}, {Vantage: "b", At: unsure(1, .3), RTT: ms(99)}, {Vantage: "c", At: unsure(2, .3), RTT: ms(98)}, {Vantage: "d", At: unsure(10, .3), RTT: ms(90)}},
			[]time.Duration{ms(48), ms(99), ms(98), ms(90)}},
		{"honest, as a network begins", []coords.Sample{{Vantage: "a", At: unsure(0, coords.MaxErr), RTT: ms(.05)}, {Vantage: "b", At: unsure(7, coords.MaxErr), RTT: ms(120)}, {Vantage: "c", At: unsure(8, 1.3), RTT: ms(200)}, {Vantage: "d", At: unsure(9, 1), RTT: ms(200)}},
			[]time.Duration{ms(.05), ms(120), ms(200), ms(200)}},
		{"honest, a little later", []coords.Sample{{Vantage: "a", At: unsure(0, .7), RTT: ms(.05)}, {Vantage: "b", At: unsure(50, .7), RTT: ms(120)}, {Vantage: "c", At: unsure(70, .7), RTT: ms(200)}, {Vantage: "d", At: unsure(70, .6), RTT: ms(200)}},
			[]time.Duration{ms(.05), ms(120), ms(200), ms(200)}},
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

// A crowd is some peers that say they are nearest to all hosts and have as many threads as can be said, among honest peers.
func crowdedCourt(t *testing.T, what string, unproven bool) (c *court, crowd []PeerRecord, share float64) {
	threads := 4. * threadsMost
	c = newCourt(t, 3, 0, JudgeConfig{Vantages: 3})
	for i := range 20 {
		p := PeerRecord{ID: ID(fmt.Sprint("p", i)), Issued: c.now, Load: Load{Threads: 4, Slots: 10}, Coord: coords.Coord{Err: .1}}
		p.Coord.Vec[0] = 100 + float64(i)
		c.peers = append(c.peers, p)
	}
	crowd = c.peers[:1]
	if what != "peer" {
		crowd = c.peers[:3]
	}
	v := ViewOf(c.now, c.peers)
	v.prefixes = make([]string, len(c.peers))
	for i := range crowd {
		crowd[i].Coord.Vec[0] = 0
		switch crowd[i].Load = (Load{Threads: 255, Slots: 255}); what {
		case "account":
			crowd[i].Account = "mallory"
		case "prefix":
			v.prefixes[i] = "203.0.113.0/24"
		}
	}
	if unproven {
		v.stands = slices.Repeat([]standing{usual}, len(c.peers))
		for i := range crowd {
			v.stands[i] = unknown
		}
		threads = 4
	}
	c.j.See(v)
	n := float64(len(crowd))
	return c, crowd, threads * n / (threads*n + 4*(20-n)) // of all threads, as far as they count
}

// at has the judge know some hosts that the crowd says it is near to.
func (c *court) at(hosts int, crowd []PeerRecord) {
	var r coords.HostRecord
	for i := range crowd {
		r.Add(coords.Sample{Vantage: string(crowd[i].ID), At: crowd[i].Coord, RTT: time.Millisecond, When: c.now.Unix()})
	}
	for h := range hosts {
		c.j.Locate(c.now, channel.HostKey(h+1), fmt.Sprint("http://", h), r)
	}
}

// One peer, account or prefix holds at most twice its fair share of all tasks that are out, whatever it says, once that is above shareLeast; the
// tasks that it does not get go to others at once. So it is while all wait that the peers can run, and while the others are full.
func TestShares(t *testing.T) {
	for i, what := range []string{"peer", "account", "prefix", "peer", "account", "prefix"} {
		c, crowd, share := crowdedCourt(t, what, i > 2)
		c.at(200, crowd)
		all, held, full := 0, 0, 0
		for h := range 200 {
			for peer, account := range c.j.AtShare() {
				if !slices.ContainsFunc(crowd, func(p PeerRecord) bool { return string(p.ID) == peer && p.Account == account }) {
					t.Errorf("%s: %s is said to have its share", what, peer)
				}
				full++
			}
			got, verdict := c.j.Near(c.now, Ask{Host: channel.HostKey(h + 1), Share: 1, Pages: 10, Gap: time.Second})
			if verdict != Go {
				break
			}
			all++
			if slices.ContainsFunc(crowd, func(p PeerRecord) bool { return p.ID == got.Peer }) {
				held++
			}
			c.hold(got.Peer, c.held[got.Peer]+1)
			// Each peer of the crowd may have shareLeast by its own share, but the account or prefix no more than that together.
			if most := max(shareLeast, shareFactor*share*float64(all)); float64(held) > most {
				t.Fatalf("%s: holds %d of %d tasks, at most %.1f", what, held, all, most)
			}
		}
		if full == 0 && i <= 2 {
			t.Errorf("%s: nobody is said to have its share", what)
		}
		if all < 30 {
			t.Errorf("%s: only %d tasks went, since they wait for who has its share", what, all)
		}
	}
}

// Of many tasks that are due at once the first ones go to the peers near them as the last ones do: what waits counts as if it were out. What the
// peers can run bounds that, as they told it within reason. That is so of a crowd that has brought nothing too: however much is due, it cannot queue that.
func TestSharesOfWhatWaits(t *testing.T) {
	for i, what := range []string{"peer", "account", "prefix", "peer", "account", "prefix"} {
		for _, due := range []int{20, 60, 1000} {
			c, crowd, share := crowdedCourt(t, what, i > 2)
			for h := range due { // not one of them is measured
				c.j.Locate(c.now, channel.HostKey(h+1), fmt.Sprint("http://", h), coords.HostRecord{})
				if _, verdict := c.j.Near(c.now, Ask{Host: channel.HostKey(h + 1), Share: NearShare}); verdict != Unmeasured {
					t.Fatalf("%s: %v", what, verdict)
				}
			}
			c.j.Looked()
			c.at(due, crowd)
			threads := 4
			if i <= 2 {
				threads *= threadsMost
			}
			able := float64(6*(20-len(crowd)) + queuedMost*threads*len(crowd))
			most := shareFactor * share * min(float64(due), able)
			first, held := 0, 0
			for h := range due {
				got, verdict := c.j.Near(c.now, Ask{Host: channel.HostKey(h + 1), Share: NearShare, Pages: 10, Gap: time.Second})
				if verdict != Go {
					continue
				}
				c.hold(got.Peer, c.held[got.Peer]+1)
				if slices.ContainsFunc(crowd, func(p PeerRecord) bool { return p.ID == got.Peer }) {
					if held++; held == h+1 {
						first++
					}
				}
			}
			each := int(most / float64(len(crowd))) // each peer has its own share too
			if want := float64(len(crowd) * each); float64(held) > max(most, shareLeast) || float64(first) < want {
				t.Errorf("%s: of %d tasks it holds %d, at most %.1f, and the first %d in a row, at least %.0f", what, due, held, most, first, want)
			}
			for range 2 { // what is not asked for any more does not count
				c.j.Looked()
			}
			if c.j.wants != [2]int32{} {
				t.Errorf("%s: %v tasks wait that are not asked for", what, c.j.wants)
			}
		}
	}
}

// A crowd that has brought nothing, and ends each task at once, gets no more than its share of those that go meanwhile.
func TestSharesOfWhatEnds(t *testing.T) {
	for _, what := range []string{"peer", "account", "prefix"} {
		c, crowd, share := crowdedCourt(t, what, true)
		c.at(2000, crowd)
		var out []ID
		all, took := 0, 0
		for h := range 2000 {
			c.now = c.now.Add(20 * time.Millisecond)
			got, verdict := c.j.Near(c.now, Ask{Host: channel.HostKey(h + 1), Share: 1, Pages: 10, Gap: time.Second})
			if verdict != Go {
				continue
			}
			all++
			c.hold(got.Peer, c.held[got.Peer]+1)
			if slices.ContainsFunc(crowd, func(p PeerRecord) bool { return p.ID == got.Peer }) {
				took++
				c.hold(got.Peer, c.held[got.Peer]-1)
			} else if out = append(out, got.Peer); len(out) > 8 {
				c.hold(out[0], c.held[out[0]]-1)
				out = out[1:]
			}
		}
		if most := 1.1 * shareFactor * share * float64(all); float64(took) > most || all < 1500 { // the first ones have faded
			t.Errorf("%s: it took %d of %d tasks, at most %.0f", what, took, all, most)
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

// TestOneMemberDoesNotMakeTheSwarmLarger has one member of twenty say that it has 255 threads and 255 places in its queue. Strategies, which plan by what the swarm
// can do, are told no more of it than its share counts.
func TestOneMemberDoesNotMakeTheSwarmLarger(t *testing.T) {
	for _, unproven := range []bool{false, true} {
		c, _, _ := crowdedCourt(t, "peer", unproven)
		most := 4 * threadsMost
		if unproven {
			most = 4
		}
		all, idle := c.j.Threads()
		if want := 19*4 + most; all != want || idle != want {
			t.Errorf("unproven %v: %d threads, %d idle, want %d", unproven, all, idle, want)
		}
		if _, holds, _ := c.j.Capacity(); holds != all+19*(10/heldShare)+255/heldShare {
			t.Errorf("unproven %v: room for %d tasks", unproven, holds)
		}
	}
}
