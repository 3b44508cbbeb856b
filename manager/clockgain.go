package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
)

// clockGain notices when the clock goes forward though less time passes, or is set back, as when somebody sets it. A host that wants to be left alone for a minute means a minute that
// passes, and so does a claim that is awaited.
type clockGain struct {
	wall, own time.Time   // the last look: at the clock, and at the process's own, which goes on evenly
	since     time.Time   // what the clock showed when it began to go evenly: at the first look, or just after it was set last
	steps     []clockStep // the last ones
}

// clockStep is one time that the clock was set.
type clockStep struct {
	until time.Time     // what it showed just before, at latest
	since time.Time     // what it showed just after, at the earliest
	by    time.Duration // by how much it went forward; negative: it was set back
}

// gainSlack is what is taken for no step, and lookSlack how far apart the two clocks may be read: a busy computer does other things in between. gainSteps are remembered.
const (
	gainSlack = 50 * time.Millisecond
	lookSlack = 10 * time.Millisecond
	gainSteps = 8
)

// look reads the clock, and tells by how much it went forward since the last look; negative: it was set back. If not ok, too much time passed meanwhile to tell.
func (g *clockGain) look(clock func() time.Time) (now time.Time, by time.Duration, ok bool) {
	last, own := *g, time.Now()
	now = clock()
	if time.Since(own) > lookSlack {
		return now, 0, false
	}
	g.wall, g.own = now.Round(0), own
	if last.wall.IsZero() {
		g.since = g.wall
		return now, 0, true
	}
	passed := g.own.Sub(last.own)
	by = g.wall.Sub(last.wall) - passed
	if by.Abs() < gainSlack {
		return now, 0, true
	}
	g.since = last.wall.Add(by)
	if len(g.steps) == gainSteps {
		g.steps = append(g.steps[:0], g.steps[1:]...)
	}
	g.steps = append(g.steps, clockStep{last.wall.Add(passed), g.since, by})
	return now, by, true
}

// after is by how much the clock went forward after it had shown a time, if it did.
func (g *clockGain) after(at time.Time) (by time.Duration) {
	for i, s := range slices.Backward(g.steps) {
		if !at.Before(s.since) && (i == len(g.steps)-1 || !at.After(g.steps[i+1].until)) {
			break // it showed that since, and before it was set the next time
		}
		by += s.by
	}
	return max(by, 0)
}

// lookTries is how often the clock is looked at on a busy computer. After that time goes on evenly since the last look, until the next one finds what this one could not: a step
// that is not known as one would end waits.
const lookTries = 4

// now is the time for what the loop does next. Hosts are left alone by then for as long as they want to be, and claims awaited for no longer, whatever the clock did. Called on the loop.
func (k *keeper) now() (now time.Time) {
	for range lookTries {
		last := k.gain
		var by time.Duration
		var ok bool
		if now, by, ok = k.gain.look(k.cfg.Now); !ok {
			continue
		}
		if by != 0 && k.machine != nil {
			k.step(last.wall, last.since, by)
		}
		return now
	}
	if last := k.gain; !last.wall.IsZero() {
		return last.wall.Add(time.Since(last.own))
	}
	return now
}

// step has all that waits go by a clock that was set when it showed a time, which had gone evenly since another.
func (k *keeper) step(at, since time.Time, by time.Duration) {
	dispatch.Shift(k.machine, at, by)
	for key, h := range k.records { // not written yet
		if !h.NextVisit.After(at) {
			continue
		}
		h.NextVisit = h.NextVisit.Add(by)
		if until := dispatch.LeftUntil(k.machine, key); until.After(h.NextVisit) {
			h.NextVisit = until
		}
	}
	if by > 0 {
		k.moved.add(at, by)
		k.log.Info("the clock went forward by itself: hosts are left alone for as long as before", "by", by.Round(time.Millisecond))
		return
	}
	dispatch.Advance(k.machine, since, -by)
	k.log.Info("the clock was set back: hosts are left alone, and tasks that were offered by it awaited, for no longer than before", "by", -by.Round(time.Millisecond))
}

// moved is which records of hosts say too early a time, since the clock went forward after they were written. Owned by the loop.
type moved struct {
	at      time.Time // those of hosts that were left alone then; zero: none
	looking bool
	again   time.Time // not before
}

// movedLeast is a step, and a rest, that is worth a look through the database: a manager that starts anew soon would visit hosts earlier by so much.
const movedLeast = 5 * time.Second

// add notes a step of the clock.
func (v *moved) add(at time.Time, by time.Duration) {
	if by >= movedLeast && (v.at.IsZero() || at.Before(v.at)) {
		v.at = at
	}
}

// moveRecords has the database say until when hosts are left alone, beside the loop, where the clock went forward after that was written.
func (k *keeper) moveRecords(ctx context.Context, now time.Time) {
	v := &k.moved
	if v.at.IsZero() || v.looking || now.Before(v.again) {
		return
	}
	at := v.at
	v.at, v.looking = time.Time{}, true
	k.beside.Go(func() {
		err := k.moveSince(ctx, at)
		_ = k.do(ctx, func(now time.Time) { // fails only when the manager ends
			if v.looking = false; err != nil {
				k.log.Warn("the clock went forward, and the database does not say yet for how long hosts are left alone; it is tried again", "err", err)
				v.add(at, movedLeast)
				v.again = now.Add(lostAgain)
			}
		})
	})
}

// moveBatch is how many records the loop changes at a time.
const moveBatch = 64

func (k *keeper) moveSince(ctx context.Context, at time.Time) error {
	var batch []string
	flush := func() error {
		var failed error
		err := k.do(ctx, func(now time.Time) {
			for _, name := range batch {
				until := dispatch.LeftUntil(k.machine, channel.KeyOf(name))
				if until.Before(now) {
					continue
				}
				h, err := k.hostRecord(name)
				if err != nil {
					failed = err
					return
				}
				if until.After(h.NextVisit) {
					left(now, h, until)
				}
			}
		})
		if batch = batch[:0]; err == nil {
			err = failed
		}
		return err
	}
	err := k.cfg.Store.ScanHosts(ctx, func(h channel.Host) error {
		if h.NextVisit.Before(at.Add(movedLeast)) {
			return nil
		}
		if batch = append(batch, h.Name); len(batch) < moveBatch {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return fmt.Errorf("move the times until which hosts are left alone: %w", err)
	}
	return nil
}
