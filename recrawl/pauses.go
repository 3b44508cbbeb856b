package recrawl

import "slices"

// pauses are the times in which nobody asked for tasks, as the manager was stopped or its computer slept. What was done since then took no time of theirs: a
// swarm that could do nothing was not slow.
type pauses struct {
	seen Tick // until then somebody asked, or something happened; 0: never yet
	all  []pause
	lost Tick // the end of the last pause that is forgotten
}

type pause struct{ from, to Tick }

const (
	leastPause = 10 // ticks without a question that are a pause; a busy computer may be late by less
	pausesKept = 16
)

// heard takes in that something happened at a tick, as the facts tell of the time before a start.
func (p *pauses) heard(at Tick) { p.seen = max(p.seen, at) }

// see takes in that somebody asks.
func (p *pauses) see(now Tick) {
	if p.seen > 0 && now-p.seen >= leastPause {
		if len(p.all) == pausesKept {
			p.lost = p.all[0].to
			p.all = slices.Delete(p.all, 0, 1)
		}
		p.all = append(p.all, pause{p.seen, now})
	}
	p.seen = max(p.seen, now)
}

// awake is how many of the ticks from one to another were in no pause.
func (p *pauses) awake(from, to Tick) Tick {
	n := to - from
	for _, q := range p.all {
		n -= max(min(q.to, to)-max(q.from, from), 0)
	}
	return n
}
