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

// town is ten peers about one place.
func town(k int, x, y float64, rng *rand.Rand) []PeerRecord {
	var out []PeerRecord
	for i := range 10 {
		p := PeerRecord{ID: ID(fmt.Sprintf("t%02d-%d", k, i)), Load: Load{Threads: 1}}
		p.Coord.Vec[0], p.Coord.Vec[1], p.Coord.Height, p.Coord.Err = x+rng.Float64(), y+rng.Float64(), 1+rng.Float64(), .1
		out = append(out, p)
	}
	return out
}

func towns(rng *rand.Rand) []PeerRecord {
	var all []PeerRecord
	for k := range 40 {
		all = append(all, town(k, 200*rng.Float64(), 100*rng.Float64(), rng)...)
	}
	return all
}

// Where a host is far from what its samples say, later rounds must look elsewhere than where the first did.
func TestVantagesFindTheNearest(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	known := towns(rng)
	var ratios []float64
	for range 60 {
		var host coords.Coord
		host.Vec[0], host.Vec[1], host.Height, host.Err = 200*rng.Float64(), 100*rng.Float64(), 1, .1
		detour := map[string]float64{} // of each town: predictions err by up to 30%
		for k := range 40 {
			detour[fmt.Sprintf("t%02d", k)] = 1 + .3*rng.Float64()
		}
		rtt := func(p PeerRecord) float64 { return coords.Distance(&p.Coord, &host) * detour[string(p.ID[:3])] }
		var r coords.HostRecord
		least := 1e9
		for round := range 1 + NearRounds {
			count := NearProbes
			if round == 0 {
				count = 16
			}
			got := NearVantages(&r, known, count, rng)
			if len(got) != count {
				t.Fatalf("round %d: %d vantages, want %d", round, len(got), count)
			}
			for _, p := range got {
				if slices.ContainsFunc(r.Samples, func(s coords.Sample) bool { return s.Vantage == string(p.ID) }) {
					t.Fatalf("%s is asked again", p.ID)
				}
				r.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: time.Duration(rtt(p) * 1e6)})
				least = min(least, rtt(p))
			}
		}
		truth := 1e9
		for _, p := range known {
			truth = min(truth, rtt(p))
		}
		ratios = append(ratios, least/truth)
	}
	slices.Sort(ratios)
	if m, p90 := ratios[30], ratios[54]; m > 1.15 || p90 > 1.6 {
		t.Errorf("the best vantage is %.2f times as far as the nearest peer (median), %.2f (p90); want 1.15 and 1.6", m, p90)
	}
}

func TestVantagesTakeTasks(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	known := towns(rng)
	for i := range known {
		if i%2 == 0 {
			known[i].Load.Threads = 0
		}
	}
	var r coords.HostRecord
	for range 3 {
		for _, p := range NearVantages(&r, known, 8, rng) {
			if p.Load.Threads == 0 {
				t.Fatalf("%s takes no tasks", p.ID)
			}
			r.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: 20 * time.Millisecond})
		}
	}
	if got := NearVantages(&r, nil, 4, rng); len(got) != 0 {
		t.Errorf("%d vantages of nobody", len(got))
	}
}

// node is a node that knows some peers.
func knowing(t *testing.T, now time.Time, seed uint64, peers []PeerRecord) *Node {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	v, err := coords.NewNode(coords.Default(), rng)
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(now, Default("me"), v, nil, rng)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range peers {
		p.Seq, p.Issued = 1, now
		if err := n.Meet(now, p); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func hostTask() Task {
	return Task{Header: channel.Header{Host: "http://h", Pages: 8, Gap: time.Second}}
}

// TestVantagesNotKnownAreAsked checks that the vantages that timed a host are asked though the table does not hold
// them. Their records make them candidates, and a vantage that is gone holds nothing up.
func TestVantagesNotKnownAreAsked(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	rng := rand.New(rand.NewPCG(9, 9))
	far := append(town(0, 100, 0, rng), town(1, 120, 10, rng)...)
	near := town(2, 0, 60, rng)[:5]
	var r coords.HostRecord
	for i, p := range append(slices.Clone(near), far[:12]...) {
		rtt := time.Duration(i+1) * time.Millisecond
		if i >= len(near) {
			rtt = 100*time.Millisecond + rtt
		}
		r.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: rtt, When: now.Unix()})
	}
	gone := near[1].ID
	n := knowing(t, now, 1, far)
	out := n.Place(now, 1, hostTask(), r)
	asked := map[ID]bool{}
	for len(out) > 0 {
		s := out[0]
		out = out[1:]
		switch m := s.Msg.(type) {
		case FindNear:
			asked[s.To] = true
			if s.To == gone {
				continue
			}
			self := PeerRecord{ID: s.To, Seq: 2, Issued: now, Load: Load{Threads: 1}}
			for _, p := range append(slices.Clone(near), far...) {
				if p.ID == s.To {
					self.Coord = p.Coord
				}
			}
			out = append(out, n.Step(now, s.To, Near{Req: m.Req, Records: []*PeerRecord{&self}})...)
		case ProbeHost:
			out = append(out, n.Step(now, s.To, Probed{Req: m.Req, RTT: 50 * time.Millisecond, At: far[0].Coord})...)
		case Offer:
			for _, p := range near[:maxStrangers] {
				if !asked[p.ID] {
					t.Errorf("%s, which timed the host from near, was not asked", p.ID)
				}
			}
			if s.To != near[0].ID {
				t.Errorf("the task is offered to %s, not to the nearest", s.To)
			}
			return
		}
	}
	t.Error("no offer was made: the vantage that is gone holds it up")
}

// Candidates time a host while the lookup goes on, and no more of them than Config.Probes in all.
func TestProbesAreSentEarlyAndBounded(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	rng := rand.New(rand.NewPCG(9, 9))
	known := append(town(0, 100, 0, rng), town(1, 120, 10, rng)...)
	var r coords.HostRecord
	for i, p := range known[15:] {
		r.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: time.Duration(60+i) * time.Millisecond, When: now.Unix()})
	}
	n := knowing(t, now, 3, known)
	out := n.Place(now, 1, hostTask(), r)
	probes, early, asked := 0, 0, 0
	for len(out) > 0 {
		s := out[0]
		out = out[1:]
		switch m := s.Msg.(type) {
		case FindNear:
			asked++
			out = append(out, n.Step(now, s.To, Near{Req: m.Req, Records: nearer(n.places[1].at, asked, now)})...)
		case ProbeHost:
			if probes++; !n.places[1].done {
				early++
			}
			out = append(out, n.Step(now, s.To, Probed{Req: m.Req, RTT: 40 * time.Millisecond, At: known[0].Coord})...)
		case Offer:
			if probes > n.cfg.Probes || probes < enoughProbes || early == 0 {
				t.Errorf("%d probes, %d of them before the lookup had ended", probes, early)
			}
			if asked > maxAsked {
				t.Errorf("%d peers were asked", asked)
			}
			return
		}
	}
	t.Error("no offer was made")
}

// nearer are peers that are the nearer to a place the more were asked before.
func nearer(at coords.Coord, asked int, now time.Time) (out []*PeerRecord) {
	for i := range 4 {
		p := PeerRecord{ID: ID(fmt.Sprintf("n%d-%d", asked, i)), Seq: 1, Issued: now, Coord: at, Load: Load{Threads: 1}}
		p.Coord.Height = 0
		p.Coord.Vec[0] += 1 / float64(asked+i+1)
		out = append(out, &p)
	}
	return out
}

// Of candidates that are about as good one is chosen at random; never one that is clearly farther.
func TestChoiceAmongTheAlike(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	rng := rand.New(rand.NewPCG(9, 9))
	known := town(0, 100, 0, rng)
	var r coords.HostRecord
	for i, p := range known {
		rtt := 10*time.Millisecond + time.Duration(i)*100*time.Microsecond
		if i >= 4 {
			rtt = 20 * time.Millisecond
		}
		r.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: rtt, When: now.Unix()})
	}
	chosen := map[ID]int{}
	for seed := range uint64(60) {
		n := knowing(t, now, seed, known)
		out := n.Place(now, 1, hostTask(), r)
	place:
		for len(out) > 0 {
			s := out[0]
			out = out[1:]
			switch m := s.Msg.(type) {
			case FindNear:
				out = append(out, n.Step(now, s.To, Near{Req: m.Req})...)
			case Offer:
				chosen[s.To]++
				break place
			}
		}
	}
	if len(chosen) != 4 {
		t.Errorf("chosen: %v, want the four that are 10 ms away", chosen)
	}
	for i, p := range known[:4] {
		if chosen[p.ID] == 0 {
			t.Errorf("peer %d was never chosen", i)
		}
	}
}
