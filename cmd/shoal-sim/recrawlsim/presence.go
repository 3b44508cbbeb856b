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
}

func newPresence(w *world) presence {
	return presence{alive: make([]bool, w.experiment.crawlers), rng: sim.Rand(w.seed, "churn")}
}

// begin has all come.
func (p *presence) begin(w *world, came func(crawler int32)) {
	for i := range p.alive {
		p.arrive(0, w, int32(i))
		came(int32(i))
	}
}

// halfGone is the minute from which on every other crawler stays away; 0: never.
func (w *world) halfGone() int {
	if w.scale == nil {
		return 0
	}
	return w.scale.HalfGone
}

func (p *presence) arrive(minute int, w *world, crawler int32) {
	p.alive[crawler] = true
	p.aliveN++
	p.next.Push(int64(float64(minute)+w.churn.Lives(p.rng)), crawler)
}

// step tells who comes and who leaves in a minute, and how.
func (p *presence) step(minute int, w *world, came func(crawler int32), left func(crawler int32, polite bool)) {
	half := w.halfGone()
	if half > 0 && minute == half {
		for c := 1; c < len(p.alive); c += 2 {
			if p.alive[c] {
				p.alive[c] = false
				p.aliveN--
				left(int32(c), false)
			}
		}
	}
	for {
		at, ok := p.next.Next()
		if !ok || at > int64(minute) {
			return
		}
		_, c := p.next.Pop()
		if half > 0 && minute >= half && c%2 == 1 { // gone for good
			continue
		}
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
