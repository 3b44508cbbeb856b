package manager

import (
	"time"

	"shoal/manager/dispatch"
)

// clockGain notices when the clock goes forward though less time passes, as when somebody sets it. A host that wants to be left alone for a minute means a minute that
// passes.
type clockGain struct {
	wall, own time.Time     // the last look: at the clock, and at the process's own, which goes on evenly
	since     time.Time     // what the clock showed just after it went forward last; zero: it did not, or was set back since
	by        time.Duration // by how much it did
}

// gainSlack is what is taken for no step, and lookSlack how far apart the two clocks may be read: a busy computer does other things in between.
const (
	gainSlack = 50 * time.Millisecond
	lookSlack = 10 * time.Millisecond
)

// look tells by how much the clock went forward since the last look.
func (g *clockGain) look(clock func() time.Time) time.Duration {
	last, own := *g, time.Now()
	now := clock()
	if time.Since(own) > lookSlack {
		return 0 // the next look is soon
	}
	g.wall, g.own = now.Round(0), own
	if last.wall.IsZero() {
		return 0
	}
	by := g.wall.Sub(last.wall) - g.own.Sub(last.own)
	if by < -gainSlack {
		g.since = time.Time{}
	}
	if by < gainSlack {
		return 0
	}
	g.since, g.by = last.wall.Add(by), by
	return by
}

// after is by how much the clock went forward after it had shown a time.
func (g *clockGain) after(at time.Time) time.Duration {
	if at.Before(g.since) {
		return g.by
	}
	return 0
}

// lookAtClock has hosts left alone for as long as they want to be, whatever the clock does.
func (c *core) lookAtClock() {
	last := c.gain.wall
	if by := c.gain.look(c.cfg.Now); by > 0 {
		dispatch.Postpone(c.machine, last, by)
		c.log.Info("the clock went forward by itself: hosts are left alone for as long as before", "by", by.Round(time.Millisecond))
	}
}
