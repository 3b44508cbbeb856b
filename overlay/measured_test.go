package overlay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/channel"
	"shoal/coords"
)

// Who has timed the host himself, and is nearest, is offered the task first, however far his young coordinate puts him.
func TestMeasuredNearestComesFirst(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	v, err := coords.NewNode(coords.Default(), rng)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Default("manager")
	cfg.Places = true
	n, err := New(now, cfg, v, nil, rng)
	if err != nil {
		t.Fatal(err)
	}
	var r coords.HostRecord
	for i := range 24 {
		p := PeerRecord{ID: ID(fmt.Sprintf("p%02d", i)), Seq: 1, Issued: now, Load: Load{Threads: 1}}
		p.Coord = v.Coord()
		p.Coord.Vec[0] += float64(10 * (i + 1))
		rtt := time.Duration(10*(i+1)) * time.Millisecond
		if i == 23 {
			rtt = 100 * time.Microsecond
		}
		if i%2 == 1 && !r.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: rtt, When: now.Unix()}) {
			t.Fatal("a sample was not taken")
		}
		if err := n.Meet(now, p); err != nil {
			t.Fatal(err)
		}
	}
	out := n.Place(now, 1, Task{Header: channel.Header{Pages: 8, Gap: time.Second}}, r)
	for len(out) > 0 {
		s := out[0]
		out = out[1:]
		switch m := s.Msg.(type) {
		case FindNear:
			out = append(out, n.Step(now, s.To, Near{Req: m.Req})...)
		case Offer:
			if s.To != "p23" {
				t.Errorf("the first offer went to %s", s.To)
			}
			return
		}
	}
	t.Error("no offer was made")
}
