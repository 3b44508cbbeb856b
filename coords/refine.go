package coords

import (
	"bytes"
	"math"
	"time"
)

// The parameters of refining.
const (
	kept        = 64   // peers whose last sample is kept
	youngStay   = 2e-6 // weight of staying where it is in directions about which the samples say little
	settledStay = 1e-3 // the same of a settled node
	settledStep = 0.02 // share of the way to the solution that a settled node goes: nodes must not drift together, and records of it stay true
	errGain     = 0.05 // how fast a node's confidence follows its residuals
)

// refine solves for the node's place from the last samples of many peers: one damped Gauss-Newton step after each sample, as fit does for
// a host. It returns false while too few peers are known.
//
// Vivaldi's springs follow one sample at a time and weigh a far peer's noise of 20 ms as much as a near peer's error of 20 ms: two peers
// of one building end up 5 to 20 ms apart. Relative residuals over many samples at once put them within 1 ms. A liar's sample counts
// little among them, since its residual is large.
func (n *Node) refine(sample *Sample) (Coord, bool) {
	n.keep(sample)
	if !n.solves() {
		return Coord{}, false
	}
	at := n.now
	at.Adjust = 0
	anchor := at
	anchor.Height = 0
	rtt := milliseconds(sample.RTT)
	residual := math.Abs(Distance(&at, &sample.At)-rtt) / (rtt + fitFloor)
	stay := youngStay
	if n.Settled() {
		stay = settledStay
	}
	descend(&at, &anchor, stay, n.points, 1)
	if n.Settled() {
		for k := range at.Vec {
			at.Vec[k] = n.now.Vec[k] + settledStep*(at.Vec[k]-n.now.Vec[k])
		}
		at.Height = n.now.Height + settledStep*(at.Height-n.now.Height)
	}
	at.Err = n.now.Err + errGain*(min(residual, MaxErr)-n.now.Err)
	return at, true
}

// solves says whether the node knows enough peers to solve for its place.
func (n *Node) solves() bool { return n.cfg.SolveFrom > 0 && len(n.kept) >= n.cfg.SolveFrom }

// memory says whose a kept sample is, and its round-trip time.
type memory struct {
	peer string
	rtt  time.Duration
}

// keep stores a peer's last sample, with the shortest recent time that still holds. When there are too many, the oldest goes.
func (n *Node) keep(s *Sample) {
	i := n.keptOf(s.Vantage)
	switch {
	case i >= 0:
		if old := n.kept[i].rtt; old < s.RTT && s.RTT-old < s.RTT/4+sameTime {
			s.RTT = old
		}
	case len(n.kept) < kept:
		i = len(n.kept)
		n.kept, n.points = append(n.kept, memory{}), append(n.points, point{})
		n.tags, n.turns = append(n.tags, 0), append(n.turns, 0)
	default:
		i = 0
		for k := range n.turns {
			if n.turns[k] < n.turns[i] {
				i = k
			}
		}
	}
	n.turn++
	n.kept[i], n.points[i] = memory{s.Vantage, s.RTT}, pointOf(s)
	n.tags[i], n.turns[i] = tagOf(s.Vantage), n.turn
}

func (n *Node) keptOf(peer string) int {
	tag := tagOf(peer)
	for from := 0; ; from++ {
		i := bytes.IndexByte(n.tags[from:], tag)
		if i < 0 {
			return -1
		}
		if from += i; n.kept[from].peer == peer {
			return from
		}
	}
}

// sameTime bounds what may be queueing: a time that is longer by this and a quarter means that the path has changed.
const sameTime = 5 * time.Millisecond

// Misfit tells how badly the place at explains the samples of a host, whatever the host's height: the sum of the squared relative
// residuals, each bounded. The peer with the least misfit sees the network most nearly as the host does.
func (r *HostRecord) Misfit(at Coord) float64 {
	at.Height, at.Adjust = 0, 0
	var dist [MaxSamples]float64
	samples := r.Samples[:min(len(r.Samples), MaxSamples)]
	sum, weight := 0.0, 0.0
	for i := range samples {
		s := &samples[i]
		dist[i] = raw(&at, &s.At) + s.At.Adjust
		rtt := milliseconds(s.RTT)
		w := 1 / ((rtt + matchFloor) * (rtt + matchFloor))
		weight += w
		sum += w * (rtt - dist[i])
	}
	if weight == 0 {
		return 0
	}
	height := max(0, sum/weight)
	cost := 0.0
	for i := range samples {
		rtt := milliseconds(samples[i].RTT)
		q := (rtt - dist[i] - height) / (rtt + matchFloor)
		cost += q * q / (1 + q*q/(fitScale*fitScale))
	}
	return cost
}

// matchFloor is fitFloor for Misfit.
const matchFloor = 3.0
