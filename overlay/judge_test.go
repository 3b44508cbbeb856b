package overlay

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/coords"
)

// court is a judge in a world of peers that come, go and move, beside what a reader would write down of them.
type court struct {
	j     *Judge
	rng   *rand.Rand
	now   time.Time
	peers []PeerRecord
	held  map[ID]int
	spare map[ID]bool
	hosts map[channel.HostKey]coords.HostRecord
}

func newCourt(t testing.TB, seed uint64, peers int, cfg JudgeConfig) *court {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	j, err := NewJudge(cfg, rand.New(rand.NewPCG(seed, 4)))
	if err != nil {
		t.Fatal(err)
	}
	c := &court{j: j, rng: rng, now: time.Unix(1_700_000_000, 0), held: map[ID]int{}, spare: map[ID]bool{}, hosts: map[channel.HostKey]coords.HostRecord{}}
	for i := range peers {
		c.peers = append(c.peers, c.peer(i))
	}
	c.see()
	return c
}

func (c *court) peer(i int) PeerRecord {
	return PeerRecord{ID: ID(fmt.Sprint("p", i)), Issued: c.now, Coord: somewhere(c.rng), Load: Load{Threads: uint8(1 + c.rng.IntN(3)), Slots: uint8(c.rng.IntN(11))}}
}

// see shows the judge the peers, and one that takes no tasks.
func (c *court) see() {
	all := append(slices.Clone(c.peers), PeerRecord{ID: "a manager", Coord: somewhere(c.rng)})
	c.j.See(ViewOf(c.now, all))
}

func (c *court) hold(id ID, n int) {
	c.held[id] = n
	c.j.Held(c.now, id, n)
}

// survey measures a host from some peers and tells the judge.
func (c *court) survey(host channel.HostKey, at coords.Coord, n int) {
	r := c.hosts[host]
	for range n {
		p := &c.peers[c.rng.IntN(len(c.peers))]
		r.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: coords.Predict(p.Coord, at) + time.Microsecond, When: c.now.Unix()})
	}
	c.hosts[host] = r
	c.j.Locate(c.now, host, fmt.Sprint("http://", host), r)
}

func (c *court) free(p *PeerRecord) bool {
	return c.held[p.ID] < int(p.Load.Threads)+int(p.Load.Slots)/5
}

// The judge agrees with looking at all peers one by one: the peer that it names is near and has room; while a near peer has room no task
// waits; a task that has waited goes to the nearest peer within its reach that was to spare and has a free thread.
func TestJudgeAgreesWithLookingAtAll(t *testing.T) {
	named, waited, farther := 0, 0, 0
	for seed := range uint64(30) {
		c := newCourt(t, seed, 3+int(seed)*2, JudgeConfig{}) // quantiles are exact up to quantileOf peers
		next := len(c.peers)
		for range 150 {
			switch c.rng.IntN(12) {
			case 0:
				c.peers = append(c.peers, c.peer(next))
				next++
			case 1:
				if len(c.peers) > 3 {
					i := c.rng.IntN(len(c.peers))
					c.peers = slices.Delete(c.peers, i, i+1)
				}
			case 2:
				c.peers[c.rng.IntN(len(c.peers))].Coord = somewhere(c.rng)
			case 3:
				c.j.Looked()
				clear(c.spare)
				for i := range c.peers {
					c.spare[c.peers[i].ID] = c.free(&c.peers[i])
				}
			}
			c.see()
			for id := range c.held {
				if !slices.ContainsFunc(c.peers, func(p PeerRecord) bool { return p.ID == id }) {
					delete(c.spare, id)
				}
			}
			p := &c.peers[c.rng.IntN(len(c.peers))]
			c.hold(p.ID, c.rng.IntN(2+Holds(p.Load)))
			host := channel.HostKey(1 + c.rng.IntN(5))
			c.survey(host, somewhere(c.rng), 1+c.rng.IntN(4))
			share := []float64{NearShare, 2 * NearShare, 1}[c.rng.IntN(3)]
			near, reach := c.within(host, share) // before the task is known to wait, which makes shares larger
			got, verdict := c.j.Near(c.now, Ask{Host: host, Share: share, Pages: 10, Gap: time.Second})
			switch {
			case len(near) > 0:
				named++
				if verdict != Go || !slices.Contains(near, got.Peer) {
					t.Fatalf("seed %d: %v, named %q of the near ones with room %v", seed, verdict, got.Peer, near)
				}
			case len(reach) > 0:
				farther++
				if verdict != Go || got.Peer != reach[0] {
					t.Fatalf("seed %d: %v, named %q; to spare, the nearest first: %v", seed, verdict, got.Peer, reach)
				}
			default:
				waited++
				if verdict != Full {
					t.Fatalf("seed %d: %v, named %q where no peer near has room", seed, verdict, got.Peer)
				}
			}
		}
	}
	if named < 500 || waited < 100 || farther < 50 {
		t.Errorf("%d named, %d waited, %d went farther: too few to tell", named, waited, farther)
	}
}

// within are the peers near a host that have room, and those within a share of all that are to spare, the nearest first, by looking at all.
func (c *court) within(host channel.HostKey, share float64) (near, reach []ID) {
	c.j.weigh(c.now, &Ask{})
	h := c.j.hosts[host]
	type one struct {
		p  *PeerRecord
		ms float64
	}
	var all []one
	r := c.hosts[host]
	r = r.Moved(func(v string) (coords.Coord, bool) {
		i := slices.IndexFunc(c.peers, func(p PeerRecord) bool { return p.ID == ID(v) })
		if i < 0 {
			return coords.Coord{}, false
		}
		return c.peers[i].Coord, true
	})
	believe(r.Samples)
	seen := measured(r)
	for i := range c.peers {
		p := &c.peers[i]
		ms := coords.Distance(&h.at, &p.Coord) + penalty
		if d, ok := seen[p.ID]; ok {
			ms = milliseconds(d)
		}
		all = append(all, one{p, ms})
	}
	slices.SortStableFunc(all, func(a, b one) int { return cmp.Compare(a.ms, b.ms) })
	over := func(p *PeerRecord) bool { return c.j.over(c.j.slotOf[p.ID]) }
	first := all[:min(len(all), candidates)]
	limit := first[len(first)-1].ms
	if i := slices.IndexFunc(first, func(o one) bool { return !over(o.p) }); i >= 0 {
		limit = all[i].ms
	}
	if n := int(NearShare * float64(len(all))); n >= 1 {
		limit = max(min(limit*nearFactor+nearSlack, all[n-1].ms), limit)
	}
	for i, o := range all {
		if over(o.p) {
			continue
		}
		if c.free(o.p) && o.ms <= limit {
			near = append(near, o.p.ID)
		}
		if c.free(o.p) && share > NearShare && i < max(int(share*float64(len(all))), 1) && c.spare[o.p.ID] && c.held[o.p.ID] < int(o.p.Load.Threads) {
			reach = append(reach, o.p.ID)
		}
	}
	return near, reach
}

// A task goes to the peer near its host that finishes first: not to the nearest, where that has a queue; and to one of those that are alike.
func TestJudgeNamesWhoFinishesFirst(t *testing.T) {
	c := newCourt(t, 1, 0, JudgeConfig{})
	at := coords.Coord{Err: .1}
	for i := range 40 {
		p := PeerRecord{ID: ID(fmt.Sprint("p", i)), Issued: c.now, Load: Load{Threads: 1, Slots: 10}, Coord: at}
		p.Coord.Vec[0] = 100 + float64(10*i)
		if i < 3 {
			p.Coord.Vec[0] = 5 + .01*float64(i)
		}
		c.peers = append(c.peers, p)
	}
	c.see()
	var r coords.HostRecord
	for i := range c.peers[:3] {
		r.Add(coords.Sample{Vantage: string(c.peers[i].ID), At: c.peers[i].Coord, RTT: 5 * time.Millisecond, When: c.now.Unix()})
	}
	c.j.Locate(c.now, 1, "http://a", r)
	names := map[ID]int{}
	for range 300 {
		got, verdict := c.j.Near(c.now, Ask{Host: 1, Share: NearShare, Pages: 10, Gap: time.Second})
		if verdict != Go {
			t.Fatal(verdict)
		}
		names[got.Peer]++
	}
	if len(names) != 3 || names["p0"] < 60 || names["p1"] < 60 || names["p2"] < 60 {
		t.Errorf("of three that are alike were named %v", names)
	}
	c.now = c.now.Add(time.Second)
	c.hold("p0", 1)
	c.hold("p2", 2)
	for range 20 {
		if got, _ := c.j.Near(c.now, Ask{Host: 1, Share: NearShare, Pages: 10, Gap: time.Second}); got.Peer != "p1" || got.RTT != 5*time.Millisecond {
			t.Fatalf("named %+v where only p1 has a thread", got)
		}
	}
	for i := range c.peers[3:] { // so that no peer has more than its share
		c.hold(c.peers[3+i].ID, 2)
	}
	c.hold("p1", 3)
	c.hold("p0", 3)
	c.hold("p2", 3)
	if got, verdict := c.j.Near(c.now, Ask{Host: 1, Share: NearShare}); verdict != Full {
		t.Errorf("%v, named %q where all near peers are full", verdict, got.Peer)
	}
	if peers, holds, held := c.j.Capacity(); peers != 40 || holds != 40*3 || held != 9+37*2 {
		t.Errorf("%d peers hold %d of %d tasks", peers, held, holds)
	}
	gone := c.peers
	c.peers = slices.Clone(c.peers[1:])
	c.see()
	if peers, holds, held := c.j.Capacity(); peers != 39 || holds != 39*3 || held != 6+37*2 {
		t.Errorf("%d peers hold %d of %d tasks after one has gone", peers, held, holds)
	}
	c.peers = gone
	c.see()
	if _, _, held := c.j.Capacity(); held != 9+37*2 {
		t.Errorf("%d tasks held when it is back, want its three too", held)
	}
}

// A host that was never measured is, before its first task; so is one that an unmeasured peer seems to be nearer to. Not too many at a time.
func TestJudgeHasHostsMeasured(t *testing.T) {
	c := newCourt(t, 5, 30, JudgeConfig{Vantages: 8, Probes: 5})
	ask := func(h channel.HostKey) Verdict {
		if !c.j.Knows(c.now, h) {
			c.j.Locate(c.now, h, fmt.Sprint("http://", h), c.hosts[h])
		}
		_, v := c.j.Near(c.now, Ask{Host: h, Share: NearShare})
		return v
	}
	most := 30 * surveysShare / 8
	for h := channel.HostKey(1); h <= 200; h++ {
		for range 2 {
			if v := ask(h); v != Unmeasured {
				t.Fatalf("host %d: %v", h, v)
			}
		}
	}
	wanted := c.j.Surveys()
	if len(wanted) != most || wanted[0].N != 8 || wanted[0].Name != "http://1" || len(c.j.Surveys()) != 0 {
		t.Fatalf("%d surveys are wanted, want %d: %+v", len(wanted), most, wanted[0])
	}
	// One cannot be reached: it is not asked for again, and its task goes anywhere.
	c.j.Surveyed(wanted[0].Host)
	if v := ask(wanted[0].Host); v != Go {
		t.Errorf("a host that cannot be measured: %v", v)
	}
	// One was measured by a peer far off: its task goes, and those that seem nearer measure it too, for the next one.
	h := wanted[1].Host
	at := somewhere(c.rng)
	far := slices.MaxFunc(c.peers, func(a, b PeerRecord) int {
		return cmp.Compare(coords.Distance(&a.Coord, &at), coords.Distance(&b.Coord, &at))
	})
	var r coords.HostRecord
	r.Add(coords.Sample{Vantage: string(far.ID), At: far.Coord, RTT: 300 * time.Millisecond, When: c.now.Unix()})
	near := far
	near.Coord.Vec[0] += 1
	r.Add(coords.Sample{Vantage: "a peer that has gone", At: near.Coord, RTT: 2 * time.Millisecond, When: c.now.Unix()})
	c.hosts[h] = r
	c.j.Surveyed(h)
	for range 3 {
		if ask(h) != Go {
			t.Error("not handed out after it was measured")
		}
	}
	again := c.j.Surveys()
	if len(again) != 1 || again[0].Host != h || again[0].N != 5 {
		t.Fatalf("wanted: %+v", again)
	}
	c.j.Surveyed(h)
	if ask(h) != Go || len(c.j.Surveys()) != 1 {
		t.Error("not measured again while a peer that has not measured it seems nearest")
	}
	nearest := slices.MinFunc(c.peers, func(a, b PeerRecord) int {
		return cmp.Compare(coords.Distance(&a.Coord, &near.Coord), coords.Distance(&b.Coord, &near.Coord))
	})
	r.Add(coords.Sample{Vantage: string(nearest.ID), At: nearest.Coord, RTT: time.Microsecond, When: c.now.Unix()})
	c.hosts[h] = r
	c.j.Surveyed(h)
	if ask(h) != Go || len(c.j.Surveys()) != 0 {
		t.Error("measured again though the nearest has measured it")
	}
}

// A peer that swallowed a task or refused one is named only where there is no other.
func TestJudgeAvoids(t *testing.T) {
	c := newCourt(t, 7, 12, JudgeConfig{})
	c.survey(1, somewhere(c.rng), 6)
	v := ViewOf(c.now, c.peers)
	v.stands = slices.Repeat([]standing{avoided, full}, len(c.peers)/2)
	v.stands[0] = usual
	c.j.See(v)
	c.j.Looked()
	if got, verdict := c.j.Near(c.now, Ask{Host: 1, Share: 1}); verdict != Go || got.Peer != "p0" {
		t.Errorf("%v, named %q instead of the one that is not to be avoided", verdict, got.Peer)
	}
	all := *v
	all.stands = slices.Repeat([]standing{avoided}, len(c.peers))
	c.j.See(&all)
	if got, verdict := c.j.Near(c.now, Ask{Host: 1, Share: NearShare}); verdict != Go || got.Peer == "" {
		t.Errorf("%v, named %q where all are to be avoided", verdict, got.Peer)
	}
}

// A peer to which no more tasks go has no room for one, whatever places it has.
func TestJudgeCountsRoom(t *testing.T) {
	c := newCourt(t, 7, 12, JudgeConfig{})
	v := ViewOf(c.now, c.peers)
	v.stands = slices.Repeat([]standing{avoided, full}, len(c.peers)/2)
	v.stands[0] = usual
	c.j.See(v)
	each := Holds(c.peers[0].Load)
	room := func(want int) {
		t.Helper()
		if _, holds, held := c.j.Capacity(); holds-held != want {
			t.Errorf("there seems to be room for %d tasks, want %d", holds-held, want)
		}
	}
	room(each)
	c.j.Held(c.now, "p1", 2) // which is full
	room(each)
	c.j.Held(c.now, "p0", 1)
	room(each - 1)
	c.j.Held(c.now, "p0", 0)
	trying := *v
	trying.stands = slices.Concat([]standing{trial, trial}, v.stands[2:])
	c.j.See(&trying) // p1 has two, and gets none
	room(1)
	c.j.Held(c.now, "p1", 0)
	room(2)
}

func TestJudgeConfig(t *testing.T) {
	for _, cfg := range []JudgeConfig{{Vantages: -1}, {Probes: -1}, {Vantages: MaxNear + 1}, {Small: -1}} {
		if _, err := NewJudge(cfg, rand.New(rand.NewPCG(1, 1))); !errors.Is(err, ErrJudge) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	j, err := NewJudge(JudgeConfig{Vantages: 8}, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if got, verdict := j.Near(time.Now(), Ask{Host: 1}); verdict != Go || got.Peer != "" {
		t.Errorf("without peers: %v, %q", verdict, got.Peer)
	}
}

// BenchmarkJudge names peers for hosts that have not been asked for, and for those that have, while some hold all that they may. The baseline
// looks at all peers for each answer.
func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{256, MaxKnown} {
		c := newCourt(b, 1, n, JudgeConfig{Vantages: 8, Probes: 5})
		const hosts = 4096
		for h := channel.HostKey(1); h <= hosts; h++ {
			at := somewhere(c.rng)
			var r coords.HostRecord
			for _, p := range append(NearVantages(&r, c.peers[:min(n, 64)], 8, c.rng), nearest(at, c.peers, 16)...) {
				r.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: coords.Predict(p.Coord, at) + 1, When: c.now.Unix()})
			}
			c.hosts[h] = r
		}
		for i := range c.peers {
			if c.rng.IntN(2) == 0 {
				c.hold(c.peers[i].ID, Holds(c.peers[i].Load))
			}
		}
		for _, known := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/%d", map[bool]string{false: "first", true: "again"}[known], n), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					h := channel.HostKey(1 + i%hosts)
					if !known || !c.j.Knows(c.now, h) {
						c.j.Locate(c.now, h, "http://a", c.hosts[h])
					}
					c.j.Near(c.now, Ask{Host: h, Share: NearShare, Pages: 100, Gap: time.Second})
				}
			})
		}
		b.Run(fmt.Sprint("all/", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				c.within(channel.HostKey(1+i%hosts), NearShare)
			}
		})
		b.Run(fmt.Sprint("held/", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				c.j.Held(c.now, c.peers[i%n].ID, i%3)
			}
		})
		b.Run(fmt.Sprint("see/", n), func(b *testing.B) {
			for b.Loop() {
				c.see()
			}
		})
	}
}

// A peer beside a host that measured it while it was busy is asked again after some tasks, and has the host's tasks from then on. Without another peer near
// the host none is asked.
func TestJudgeHasHostsMeasuredAgain(t *testing.T) {
	c := newCourt(t, 9, 3, JudgeConfig{Vantages: 8, Probes: 5})
	var r coords.HostRecord
	for i, rtt := range []time.Duration{60, 61, 90} { // the third is beside it
		r.Add(coords.Sample{Vantage: string(c.peers[i].ID), At: c.peers[i].Coord, RTT: rtt * time.Millisecond, When: c.now.Unix() - int64(i)})
	}
	c.j.Locate(c.now, 1, "http://1", r)
	var asked []ID
	for task := range 3 * again {
		n, v := c.j.Near(c.now, Ask{Host: 1, Share: NearShare})
		if v != Go {
			t.Fatalf("task %d: %v", task, v)
		}
		if beside := slices.Contains(asked, c.peers[2].ID); (n.Peer == c.peers[2].ID) != beside {
			t.Errorf("task %d goes to %s; measured again by %v", task, n.Peer, asked)
		}
		for _, s := range c.j.Surveys() {
			if s.N != 1 || s.Name != "http://1" || s.By == n.Peer {
				t.Errorf("after task %d, of %s: %+v", task, n.Peer, s)
			}
			asked = append(asked, s.By)
			rtt := 60 * time.Millisecond
			if s.By == c.peers[2].ID {
				rtt = time.Millisecond
			}
			r.Add(coords.Sample{Vantage: string(s.By), At: r.Samples[0].At, RTT: rtt, When: c.now.Unix() + int64(task)})
			c.j.Surveyed(1)
			c.j.Locate(c.now, 1, "http://1", r)
		}
	}
	if len(asked) != 3 || !slices.Contains(asked, c.peers[2].ID) {
		t.Errorf("measured again by %v in %d tasks", asked, 3*again)
	}
}

// A peer near a host that never answers when it is to measure it does not keep the others from measuring it again.
func TestJudgeDoesNotWaitForTheSilent(t *testing.T) {
	c := newCourt(t, 9, 3, JudgeConfig{Vantages: 8, Probes: 5})
	var r coords.HostRecord
	for i, rtt := range []time.Duration{10, 90} { // the third has never measured it
		r.Add(coords.Sample{Vantage: string(c.peers[i].ID), At: c.peers[i].Coord, RTT: rtt * time.Millisecond, When: c.now.Unix()})
	}
	c.j.Locate(c.now, 1, "http://1", r)
	asked := map[ID]int{}
	for range 4 * again {
		c.j.Near(c.now, Ask{Host: 1, Share: NearShare})
		for _, s := range c.j.Surveys() {
			asked[s.By]++
			c.j.Surveyed(1)
			c.j.Locate(c.now, 1, "http://1", r)
		}
	}
	if asked[c.peers[1].ID] != 2 || asked[c.peers[2].ID] != 2 {
		t.Errorf("asked: %v", asked)
	}
}
