package recrawlsim

import (
	"math/rand/v2"

	"shoal/internal/sim"
)

// presence is which crawlers are there: all at first, then each for a life, away for a gap, and so on, in the same way for every strategy.
type presence struct {
	alive  []bool
	aliveN int
	next   sim.Queue[int32]
	rng    *rand.Rand
	moves  []Move // to come, where they are known
}

func newPresence(w *world) presence {
	return presence{alive: make([]bool, w.experiment.crawlers), rng: sim.Rand(w.seed, "churn")}
}

// begin has all come, unless it is known when each does.
func (p *presence) begin(w *world, came func(crawler int32)) {
	if w.scale != nil && w.scale.Moves != nil {
		p.moves = w.scale.Moves
		return
	}
	for i := range p.alive {
		p.arrive(0, w, int32(i))
		came(int32(i))
	}
}

func (p *presence) arrive(minute int, w *world, crawler int32) {
	p.alive[crawler] = true
	p.aliveN++
	p.next.Push(int64(float64(minute)+w.churn.Lives(p.rng)), crawler)
}

// step tells who comes and who leaves in a minute, and how.
func (p *presence) step(minute int, w *world, came func(crawler int32), left func(crawler int32, polite bool)) {
	for ; len(p.moves) > 0 && p.moves[0].Step <= minute; p.moves = p.moves[1:] {
		m := p.moves[0]
		if p.alive[m.Peer] = !p.alive[m.Peer]; p.alive[m.Peer] {
			p.aliveN++
			came(m.Peer)
			continue
		}
		p.aliveN--
		left(m.Peer, m.Polite)
	}
	for {
		at, ok := p.next.Next()
		if !ok || at > int64(minute) {
			return
		}
		_, c := p.next.Pop()
		if !p.alive[c] {
			if out := w.outage; minute >= out[0] && minute < out[1] && c%4 != 0 {
				p.next.Push(int64(out[1]), c)
				continue
			}
			p.arrive(minute, w, c)
			came(c)
			continue
		}
		p.alive[c] = false
		p.aliveN--
		polite := w.churn.Leaves(p.rng)
		p.next.Push(int64(float64(minute)+w.churn.Stays(p.rng)), c)
		left(c, polite)
	}
}
