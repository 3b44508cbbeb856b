package coords

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// swarm is a network of nodes with true places in a plane, which measure one another.
type swarm struct {
	nodes []*Node
	at    []Coord // true coordinates
	rng   *rand.Rand
	lie   func(i int) (Coord, bool) // what node i claims instead of its coordinate
}

func newSwarm(t testing.TB, size int, seed uint64) *swarm {
	t.Helper()
	s := &swarm{rng: rand.New(rand.NewPCG(seed, 1)), lie: func(int) (Coord, bool) { return Coord{}, false }}
	for range size {
		n, err := NewNode(Default(), rand.New(rand.NewPCG(s.rng.Uint64(), 2)))
		if err != nil {
			t.Fatal(err)
		}
		s.nodes = append(s.nodes, n)
		c := Coord{Height: 1 + 10*s.rng.Float64()}
		c.Vec[0], c.Vec[1], c.Vec[2] = 150*s.rng.Float64(), 80*s.rng.Float64(), 40*s.rng.Float64()
		s.at = append(s.at, c)
	}
	return s
}

func (s *swarm) rtt(i, j int) time.Duration {
	return time.Duration(Distance(&s.at[i], &s.at[j]) * (1 + 0.1*s.rng.ExpFloat64()) * 1e6)
}

func (s *swarm) run(rounds int) {
	for range rounds {
		for i := range s.nodes {
			j := s.rng.IntN(len(s.nodes))
			if i == j {
				continue
			}
			claim, lies := s.lie(j)
			if !lies {
				claim = s.nodes[j].Coord()
			}
			s.nodes[i].Update(strconv.Itoa(j), claim, s.rtt(i, j)) //nolint:errcheck // refusals are the point
		}
	}
}

// medianError is the median error of prediction among the nodes from first on, relative to the true time.
func (s *swarm) medianError(first int) float64 {
	var errs []float64
	for i := first; i < len(s.nodes); i++ {
		for j := first; j < i; j++ {
			a, b := s.nodes[i].Coord(), s.nodes[j].Coord()
			true := Distance(&s.at[i], &s.at[j])
			errs = append(errs, math.Abs(Distance(&a, &b)-true)/true)
		}
	}
	slices.Sort(errs)
	return errs[len(errs)/2]
}

func TestConverges(t *testing.T) {
	s := newSwarm(t, 100, 1)
	s.run(400)
	if e := s.medianError(0); e > 0.15 {
		t.Fatalf("median error %.3f after 400 samples each, want at most 0.15", e)
	}
	for i, n := range s.nodes {
		if c := n.Coord(); !c.Valid() || !n.Settled() {
			t.Fatalf("node %d: coordinate %+v valid %v, settled %v", i, c, c.Valid(), n.Settled())
		}
	}
}

func TestSettledDrift(t *testing.T) {
	s := newSwarm(t, 100, 2)
	s.run(400)
	before := make([]Coord, len(s.nodes))
	for i, n := range s.nodes {
		before[i] = n.Coord()
	}
	s.run(60)
	var drift []float64
	for i, n := range s.nodes {
		now := n.Coord()
		drift = append(drift, Apart(&before[i], &now))
	}
	slices.Sort(drift)
	if m := drift[len(drift)/2]; m > 2 {
		t.Fatalf("median drift %.2f ms in 60 samples, want at most 2", m)
	}
}

func TestLiars(t *testing.T) {
	honest := newSwarm(t, 120, 3)
	honest.run(300)
	clean := honest.medianError(12)
	lies := map[string]func(rng *rand.Rand, i int) Coord{
		"random and sure": func(rng *rand.Rand, _ int) Coord {
			c := Coord{Err: MinErr}
			for k, u := range direction(rng) {
				c.Vec[k] = 1000 * u
			}
			return c
		},
		"all on one far point": func(*rand.Rand, int) Coord { return Coord{Vec: [Dims]float64{2000}, Err: MinErr} },
		"negative error":       func(*rand.Rand, int) Coord { return Coord{Err: -1} },
		"huge adjustment":      func(*rand.Rand, int) Coord { return Coord{Err: MinErr, Adjust: 1e6} },
		"near and high":        func(rng *rand.Rand, _ int) Coord { return Coord{Err: MinErr, Height: 300 * rng.Float64()} },
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			s := newSwarm(t, 120, 3)
			rng := rand.New(rand.NewPCG(9, 9))
			s.lie = func(i int) (Coord, bool) {
				if i >= 12 {
					return Coord{}, false
				}
				return lie(rng, i), true
			}
			s.run(300)
			if e := s.medianError(12); e > 1.15*clean {
				t.Errorf("honest nodes' median error %.4f with a tenth lying, %.4f without", e, clean)
			}
		})
	}
}

func TestGuards(t *testing.T) {
	good := Coord{Vec: [Dims]float64{30}, Err: 0.3}
	with := func(f func(*Coord)) Coord { c := good; f(&c); return c }
	tests := []struct {
		name string
		at   Coord
		rtt  time.Duration
		want error
	}{
		{"good", good, 30 * time.Millisecond, nil},
		{"NaN", with(func(c *Coord) { c.Vec[3] = math.NaN() }), time.Millisecond, ErrRange},
		{"infinite", with(func(c *Coord) { c.Vec[7] = math.Inf(-1) }), time.Millisecond, ErrRange},
		{"overflowing", with(func(c *Coord) { c.Vec[0], c.Vec[1] = 1e200, 1e200 }), time.Millisecond, ErrRange},
		{"NaN height", with(func(c *Coord) { c.Height = math.NaN() }), time.Millisecond, ErrRange},
		{"negative height", with(func(c *Coord) { c.Height = -1 }), time.Millisecond, ErrRange},
		{"negative error", with(func(c *Coord) { c.Err = -0.1 }), time.Millisecond, ErrRange},
		{"too sure", with(func(c *Coord) { c.Err = 0.01 }), time.Millisecond, ErrRange},
		{"huge adjustment", with(func(c *Coord) { c.Adjust = -1e5 }), time.Millisecond, ErrRange},
		{"no time", good, 0, ErrRTT},
		{"negative time", good, -1, ErrRTT},
		{"too long", good, MaxRTT + 1, ErrRTT},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, _ := NewNode(Default(), rand.New(rand.NewPCG(1, 1)))
			before := n.Coord()
			after, err := n.Update("p", tt.at, tt.rtt)
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if moved := after != before; moved != (tt.want == nil) {
				t.Errorf("moved %v", moved)
			}
		})
	}
}

func TestOneSamplePullsLittle(t *testing.T) {
	n, _ := NewNode(Default(), rand.New(rand.NewPCG(1, 1)))
	before := n.Coord()
	after, err := n.Update("far", Coord{Vec: [Dims]float64{2900}, Err: MinErr}, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if d := Apart(&before, &after); d > Default().YoungPull+1e-6 {
		t.Errorf("one sample moved the node %.1f ms", d)
	}
}

func TestPeerHasItsShare(t *testing.T) {
	n, _ := NewNode(Default(), rand.New(rand.NewPCG(1, 1)))
	refused := 0
	for i := range 4 * window {
		peer := "greedy"
		if i%4 == 0 {
			peer = strconv.Itoa(i % 40)
		}
		_, err := n.Update(peer, Coord{Vec: [Dims]float64{30}, Err: 0.3}, 30*time.Millisecond)
		if errors.Is(err, ErrShare) {
			refused++
			if peer != "greedy" {
				t.Fatalf("refused %s", peer)
			}
		}
	}
	if refused < window {
		t.Errorf("only %d samples of a peer that took three quarters of all were refused", refused)
	}
	lone, _ := NewNode(Default(), rand.New(rand.NewPCG(1, 1)))
	for range 2 * window {
		if _, err := lone.Update("only", Coord{Vec: [Dims]float64{30}, Err: 0.3}, 30*time.Millisecond); err != nil {
			t.Fatalf("the only neighbour was refused: %v", err)
		}
	}
}

func TestSameSeedSameCoordinates(t *testing.T) {
	a, b := newSwarm(t, 30, 7), newSwarm(t, 30, 7)
	a.run(50)
	b.run(50)
	for i := range a.nodes {
		if a.nodes[i].Coord() != b.nodes[i].Coord() {
			t.Fatalf("node %d differs between two runs of one seed", i)
		}
	}
}

func TestCoincidentPeers(t *testing.T) {
	n, _ := NewNode(Default(), rand.New(rand.NewPCG(1, 1)))
	for range 200 {
		c, err := n.Update("twin", n.Coord(), 200*time.Microsecond)
		if err != nil || !c.Valid() {
			t.Fatalf("coordinate %+v: %v", c, err)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	n, _ := NewNode(Default(), rand.New(rand.NewPCG(1, 1)))
	at := Coord{Vec: [Dims]float64{30}, Err: 0.3}
	names := make([]string, 48)
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	b.ReportAllocs()
	for i := range b.N {
		n.Update(names[i%48], at, 30*time.Millisecond) //nolint:errcheck // always in range
	}
}
