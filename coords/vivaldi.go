package coords

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/serf/coordinate"
)

// Why a sample was not used.
var (
	ErrRange    = errors.New("coords: coordinate out of range")
	ErrRTT      = errors.New("coords: round-trip time out of range")
	ErrResidual = errors.New("coords: sample too far from what was predicted")
	ErrShare    = errors.New("coords: peer has had its share of recent samples")
)

// Config tunes a Node. Default is what the experiments settled on.
type Config struct {
	YoungGain   float64 // Vivaldi's c_c until the node has converged; 0.25
	SettledGain float64 // c_c after that; 0.05, within the 0.02 to 0.1 that keeps drift near 1 ms per 60 samples
	Settle      int     // samples until the node counts as converged; 100
	YoungPull   float64 // longest move by one sample before convergence, ms; 20
	SettledPull float64 // and after it; 4
	GateMADs    float64 // a residual above median + GateMADs deviations of the recent ones is refused; 5
	GateAfter   int     // residuals to have seen before the gate works; 6
	ErrFloor    float64 // a neighbour's error counts as at least this, however sure it says it is; 0.1
	Spread      float64 // radius of the seeded start, ms; 5
	SolveFrom   int     // peers with a kept sample from which on the node solves for its place (see refine); 16. 0: never, Vivaldi alone
}

// Default is the configuration of the product.
func Default() Config {
	return Config{YoungGain: 0.25, SettledGain: 0.05, Settle: 100, YoungPull: 20, SettledPull: 4, GateMADs: 5, GateAfter: 6, ErrFloor: 0.1, Spread: 5, SolveFrom: 16}
}

// Validate tells what is wrong with a configuration, and changes nothing.
func (c Config) Validate() error {
	switch {
	case !(c.YoungGain > 0 && c.YoungGain <= 1) || !(c.SettledGain > 0 && c.SettledGain <= 1):
		return fmt.Errorf("coords: gains %v and %v must lie in (0, 1]", c.YoungGain, c.SettledGain)
	case !(c.YoungPull > 0) || !(c.SettledPull > 0) || !(c.Spread > 0):
		return fmt.Errorf("coords: pulls %v, %v and spread %v must be positive", c.YoungPull, c.SettledPull, c.Spread)
	case !(c.GateMADs > 0) || c.GateAfter < 1 || c.Settle < 1:
		return fmt.Errorf("coords: gate %v after %d and settle %d must be positive", c.GateMADs, c.GateAfter, c.Settle)
	case c.SolveFrom < 0 || c.SolveFrom > kept:
		return fmt.Errorf("coords: solving from %d peers must be 0 to %d", c.SolveFrom, kept)
	}
	return nil
}

const (
	window      = 128 // samples whose peers are remembered
	minShare    = 8   // samples among them that one peer may always have
	shareFactor = 3   // where few peers are known, a peer may have this multiple of an even share
	reheatErr   = 0.8 // a settled node that becomes this unsure has moved to another network and learns quickly again
)

// Node finds one peer's own coordinate from the round-trip times that the peer measures. It is owned by one goroutine.
//
// Vivaldi places the node while it knows few peers (Dabek, Cox, Kaashoek, Morris, "Vivaldi: A Decentralized Network Coordinate
// System", SIGCOMM 2004; serf's client). Once it knows Config.SolveFrom of them, refine solves for its place instead. serf's client
// checks only dimension and NaN: one neighbour that claims a negative error or a huge adjustment would destroy every estimate. So
// every sample passes guards first: range checks, a residual gate, a bounded pull per sample and a bounded share of samples per peer.
// docs/decisions/0021-coordinates-are-solved-for.md has the figures.
type Node struct {
	cfg    Config
	lib    *coordinate.Config // the client's; the gain changes in place
	client *coordinate.Client
	rng    *rand.Rand
	now    Coord
	gate   gate
	recent recent
	kept   []memory // the last sample of each peer
	tags   []byte   // of the peers of kept
	turns  []uint64 // when each of kept was stored; a higher turn is later
	points []point  // kept, made ready for descend
	turn   uint64   // samples kept so far
	apart  bool     // the node has moved without the library's client
	used   int      // samples used since the start or the last reheating
}

// NewNode starts at a point drawn from seed. The library cannot be seeded: it would drive two nodes that start on one point apart by
// its global random source.
func NewNode(cfg Config, seed *rand.Rand) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	lib := coordinate.DefaultConfig()
	lib.Dimensionality = Dims
	lib.VivaldiErrorMax = MaxErr
	lib.VivaldiCC = cfg.YoungGain
	client, err := coordinate.NewClient(lib)
	if err != nil {
		return nil, fmt.Errorf("coords: start Vivaldi: %w", err)
	}
	n := &Node{cfg: cfg, lib: lib, client: client, rng: seed}
	start := Coord{Err: MaxErr, Height: lib.HeightMin * 1e3}
	for i, u := range direction(seed) {
		start.Vec[i] = u * cfg.Spread
	}
	n.set(start)
	return n, nil
}

// Coord is the node's present coordinate.
func (n *Node) Coord() Coord { return n.now }

// Settled says whether the node has converged.
func (n *Node) Settled() bool { return n.used >= n.cfg.Settle }

// Set forces the coordinate, such as one kept over a restart.
func (n *Node) Set(c Coord) error {
	if !c.Valid() {
		return fmt.Errorf("set coordinate: %w", ErrRange)
	}
	n.set(c)
	return nil
}

// Update learns from one measured round-trip time to a peer that said it was at. A refused sample changes no coordinate.
func (n *Node) Update(peer string, at Coord, rtt time.Duration) (Coord, error) {
	if !at.Valid() {
		return n.now, fmt.Errorf("sample from %s: %w", peer, ErrRange)
	}
	if rtt <= 0 || rtt > MaxRTT {
		return n.now, fmt.Errorf("sample from %s of %v: %w", peer, rtt, ErrRTT)
	}
	slot := n.recent.find(peer)
	if slot >= 0 && int(n.recent.counts[slot]) >= max(minShare, shareFactor*window/n.recent.distinct) {
		return n.now, fmt.Errorf("sample from %s: %w", peer, ErrShare)
	}
	ms := float64(rtt) / float64(time.Millisecond)
	residual := math.Abs(Distance(&n.now, &at)-ms) / (ms + fitFloor)
	at.Err = max(at.Err, n.cfg.ErrFloor)
	if left := n.recent.add(peer, slot); left != "" {
		n.client.ForgetNode(left)
	}
	if !n.gate.admit(residual, n.cfg.GateMADs, n.cfg.GateAfter) && n.Settled() { // a young node's own place may be what is wrong
		return n.now, fmt.Errorf("sample from %s of %v: %w", peer, rtt, ErrResidual)
	}
	if c, ok := n.refine(&Sample{Vantage: peer, At: at, RTT: rtt}); ok {
		n.accept(c)
		return n.now, nil
	}
	if Apart(&n.now, &at) < tooClose {
		for i, u := range direction(n.rng) { // else the library would use its global random source
			at.Vec[i] += u * 2 * tooClose
		}
	}
	if n.apart { // the node knew enough peers to solve, and has forgotten some
		n.apart = false
		n.set(n.now)
	}
	moved, err := n.client.Update(peer, toSerf(&at), rtt)
	if err != nil {
		return n.now, fmt.Errorf("sample from %s: %w", peer, err)
	}
	n.accept(fromSerf(moved))
	return n.now, nil
}

// Forget drops what is kept of a peer that is gone.
func (n *Node) Forget(peer string) {
	n.client.ForgetNode(peer)
	if i := n.keptOf(peer); i >= 0 {
		n.kept, n.points = slices.Delete(n.kept, i, i+1), slices.Delete(n.points, i, i+1)
		n.tags, n.turns = slices.Delete(n.tags, i, i+1), slices.Delete(n.turns, i, i+1)
	}
}

const tooClose = 0.002 // ms; the library thinks points nearer than 0.001 ms the same

// accept moves to a new coordinate, but no further from the old one than one sample may pull.
func (n *Node) accept(c Coord) {
	limit := n.cfg.YoungPull
	if n.Settled() {
		limit = n.cfg.SettledPull
	}
	out := c
	move := 0.0
	for i := range c.Vec {
		move += (c.Vec[i] - n.now.Vec[i]) * (c.Vec[i] - n.now.Vec[i])
	}
	if move = math.Sqrt(move); move > limit {
		for i := range out.Vec {
			out.Vec[i] = n.now.Vec[i] + (c.Vec[i]-n.now.Vec[i])*limit/move
		}
	}
	out.Height = min(max(c.Height, n.now.Height-limit), n.now.Height+limit)
	out.clamp()
	n.used++
	switch {
	case n.Settled() && out.Err > reheatErr:
		n.used = 0
		n.lib.VivaldiCC = n.cfg.YoungGain
	case n.Settled():
		n.lib.VivaldiCC = n.cfg.SettledGain
	}
	if !n.solves() {
		n.set(out)
		return
	}
	n.now, n.apart = out, true
}

func (n *Node) set(c Coord) {
	if n.client.SetCoordinate(toSerf(&c)) == nil { // fails only for NaN, which c has been cleared of
		n.now = c
	}
}

// direction is a random unit vector.
func direction(rng *rand.Rand) [Dims]float64 {
	for {
		var v [Dims]float64
		sum := 0.0
		for i := range v {
			v[i] = rng.NormFloat64()
			sum += v[i] * v[i]
		}
		if sum < 1e-6 {
			continue
		}
		for i := range v {
			v[i] /= math.Sqrt(sum)
		}
		return v
	}
}

func toSerf(c *Coord) *coordinate.Coordinate {
	s := &coordinate.Coordinate{Vec: make([]float64, Dims), Height: c.Height / 1e3, Adjustment: c.Adjust / 1e3, Error: c.Err}
	for i, v := range c.Vec {
		s.Vec[i] = v / 1e3
	}
	return s
}

func fromSerf(s *coordinate.Coordinate) Coord {
	c := Coord{Height: s.Height * 1e3, Adjust: s.Adjustment * 1e3, Err: s.Error}
	for i := range c.Vec {
		c.Vec[i] = s.Vec[i] * 1e3
	}
	return c
}
