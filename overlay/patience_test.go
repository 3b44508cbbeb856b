package overlay

import (
	"math/rand/v2"
	"testing"
	"time"

	"shoal/coords"
)

// TestAround checks that no node waits long for a peer whose record puts it near. The time to open a connection says
// nothing about the other end's place, and neither does the longer way over a relay, within bounds; nothing about
// answer times is learnt from either.
func TestAround(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	const soon, later, far = 30 * time.Millisecond, 60 * time.Millisecond, 400 * time.Millisecond
	for _, c := range []struct {
		what string
		way  func(n *Node, req uint64)
		at   time.Duration // after the request was made
		late bool
	}{
		{"over a connection, in time", func(*Node, uint64) {}, soon, false},
		{"over a connection, too late", func(*Node, uint64) {}, later, true},
		{"while a connection is made", func(n *Node, req uint64) { n.Around(began, req) }, later, false},
		{"while one is made for too long", func(n *Node, req uint64) { n.Around(began, req) }, far, true},
		{"in time after it was made", func(n *Node, req uint64) { n.Around(began, req); n.Straight(began.Add(90*time.Millisecond), req) }, 90*time.Millisecond + soon, false},
		{"too late after it was made", func(n *Node, req uint64) { n.Around(began, req); n.Straight(began.Add(90*time.Millisecond), req) }, 90*time.Millisecond + later, true},
		{"of requests that are none", func(n *Node, req uint64) { n.Around(began, req+1); n.Straight(began, req+1) }, later, true},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		v, err := coords.NewNode(coords.Default(), rng)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Default("self")
		cfg.Every = time.Hour
		n, err := New(began, cfg, v, nil, rng)
		if err != nil {
			t.Fatal(err)
		}
		n.Tick(began) // it knows no peer to gossip with yet
		p := PeerRecord{ID: "p", Seq: 1, Issued: began, Coord: n.Coord()}
		p.Coord.Vec[0] += 10
		if d := coords.Predict(n.Coord(), p.Coord); d < 10*time.Millisecond || d > 12*time.Millisecond {
			t.Fatalf("predicted %v", d)
		}
		if err := n.Meet(began, p); err != nil {
			t.Fatal(err)
		}
		out := n.Lookup(began, 1, p.Coord)
		if len(out) == 0 {
			t.Fatal("nobody is asked")
		}
		req := out[0].Msg.(FindNear).Req
		c.way(n, req)
		at, pace := began.Add(c.at), n.pace
		n.Tick(at)
		if late := n.pending[req].late; late != c.late {
			t.Errorf("%s: late %v", c.what, late)
		}
		around := n.pending[req].round
		self := p
		self.Seq++
		n.Step(at, "p", Near{Req: req, Records: []*PeerRecord{&self}})
		if learnt := n.pace != pace; learnt == around {
			t.Errorf("%s: learnt from it %v", c.what, learnt)
		}
	}
}
