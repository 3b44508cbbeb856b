package manager

import (
	"time"

	"shoal/manager/dispatch"
)

// clockGain notices when the clock goes forward though less time passes, or is set back, as when somebody sets it. A host that wants to be left alone for a minute means a minute that
// passes, and so does a claim that is awaited.
type clockGain struct {
	wall, own time.Time     // the last look: at the clock, and at the process's own, which goes on evenly
	since     time.Time     // what the clock showed when it began to go evenly: at the first look, or just after it was set last
	by        time.Duration // by how much it went forward then; negative: it was set back. Zero: it was the first look
}

// gainSlack is what is taken for no step, and lookSlack how far apart the two clocks may be read: a busy computer does other things in between.
const (
	gainSlack = 50 * time.Millisecond
	lookSlack = 10 * time.Millisecond
)

// look tells by how much the clock went forward since the last look; negative: it was set back.
func (g *clockGain) look(clock func() time.Time) time.Duration {
	last, own := *g, time.Now()
	now := clock()
	if time.Since(own) > lookSlack {
		return 0 // the next look is soon
	}
	g.wall, g.own = now.Round(0), own
	if last.wall.IsZero() {
		g.since = g.wall
		return 0
	}
	by := g.wall.Sub(last.wall) - g.own.Sub(last.own)
	if by.Abs() < gainSlack {
		return 0
	}
	g.since, g.by = last.wall.Add(by), by
	return by
}

// after is by how much the clock went forward after it had shown a time, if it did last.
func (g *clockGain) after(at time.Time) time.Duration {
	if at.Before(g.since) {
		return max(g.by, 0)
	}
	return 0
}

// lookAtClock has hosts left alone for as long as they want to be, and claims awaited for no longer, whatever the clock does.
func (k *keeper) lookAtClock() {
	last := k.gain
	by := k.gain.look(k.cfg.Now)
	if by == 0 {
		return
	}
	dispatch.Shift(k.machine, last.wall, by)
	for key, h := range k.records { // not written yet
		if until := dispatch.LeftUntil(k.machine, key); !until.IsZero() && h.NextVisit.After(last.wall) {
			left(k.gain.wall, h, until)
		}
	}
	if by > 0 {
		k.log.Info("the clock went forward by itself: hosts are left alone for as long as before", "by", by.Round(time.Millisecond))
		return
	}
	dispatch.Advance(k.machine, last.since, -by)
	k.log.Info("the clock was set back: hosts are left alone, and tasks that were offered by it awaited, for no longer than before", "by", -by.Round(time.Millisecond))
}
