package livesim

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"shoal/cmd/shoal-sim/recrawlsim"
	"shoal/internal/sim"
)

// move is a peer that comes or goes, seconds after the start.
type move struct {
	at     float64
	peer   int
	comes  bool
	polite bool
}

// lives is when a peer comes and goes in a run, the same for every strategy.
func (c *cell) lives(i int) []move {
	all := []move{{0, i, true, false}}
	switch {
	case c.Scene == "half" && i%2 == 1:
		return append(all, move{c.Minutes * 30, i, false, false})
	case !c.Churn:
		return all
	}
	rng := sim.Rand(c.Seed, fmt.Sprintf("peer %d", i))
	for at := 0.; ; {
		if at += churn.Lives(rng); at >= 60*c.Minutes {
			return all
		}
		all = append(all, move{at, i, false, churn.Leaves(rng)})
		if at += churn.Stays(rng); at >= 60*c.Minutes {
			return all
		}
		all = append(all, move{at, i, true, false})
	}
}

// usualStart is how long a peer takes from its start until it has its first task, in seconds; fewer looks than fewLooks, one a second, do not tell of a run's own.
const (
	usualStart = 2.
	fewLooks   = 5
)

// moves are those of all peers, as the simulator takes them.
func (c *cell) moves() []recrawlsim.Move {
	var all []move
	for i := range c.Peers {
		all = append(all, c.lives(i)...)
	}
	return stepped(all, usualStart)
}

// presence is how many seconds peers were there until a time of the run, and how often one came.
func (n *network) presence(until float64) (there float64, comes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.moves {
		switch {
		case m.at > until:
		case m.comes:
			there, comes = there+until-m.at, comes+1
		default:
			there -= until - m.at
		}
	}
	return there, comes
}

// firstGone is when the first peer went, in seconds of the run.
func (n *network) firstGone() float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := math.Inf(1)
	for _, m := range n.moves {
		if !m.comes {
			at = min(at, m.at)
		}
	}
	return at
}

// late is how many seconds peers took on average from their start until their threads were there. It is told by the time before the first one went: of one that was killed the manager counts
// the threads for as long as it does not know. Where that was too short, it is the usual time.
func (n *network) late(w *watched) float64 {
	k, gone := 0, n.firstGone()
	for k < len(w.series) && w.series[k].at <= gone {
		k++
	}
	if k < fewLooks {
		return usualStart
	}
	there, comes := n.presence(w.series[k-1].at)
	return max((there-w.series[k-1].threads/float64(n.Threads))/float64(max(comes, 1)), 0)
}

// ghosts are the thread seconds that the manager counted of peers that were not there any more.
func (n *network) ghosts(w *watched) float64 {
	last := w.series[len(w.series)-1]
	there, comes := n.presence(last.at)
	return max(last.threads-float64(n.Threads)*(there-n.late(w)*float64(comes)), 0)
}

// stepped puts moves, of each peer in their order, into steps and into the order of these; who comes is there so much later, but before it goes.
func stepped(all []move, late float64) (out []recrawlsim.Move) {
	last := map[int]int{}
	for _, m := range all {
		if m.comes {
			m.at += late
		}
		last[m.peer] = max(int(math.Round(m.at)), last[m.peer])
		out = append(out, recrawlsim.Move{Step: last[m.peer], Peer: int32(m.peer), Polite: m.polite})
	}
	slices.SortStableFunc(out, func(a, b recrawlsim.Move) int { return cmp.Compare(a.Step, b.Step) })
	return out
}
