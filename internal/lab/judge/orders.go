package judge

import (
	"fmt"
	"strings"
	"time"
)

// Purging notes that the manager is asked to take a host down: from now on what was told of the host may go, done or not. Purged notes that the manager
// acknowledged it: nothing that was fetched before may be there any more.
func (j *Judge) Purging(name string) error {
	n, ok := j.number[bare(name)]
	if !ok {
		return fmt.Errorf("judge: the pond has no host %s", name)
	}
	if _, ok := j.purged[n]; !ok {
		j.purged[n] = time.Time{}
	}
	j.removed[n] = true
	return nil
}

// Removing notes that the manager is asked to remove channels of a host: from now on they may go, and its pages stay.
func (j *Judge) Removing(name string) error {
	n, ok := j.number[bare(name)]
	if !ok {
		return fmt.Errorf("judge: the pond has no host %s", name)
	}
	j.removed[n] = true
	return nil
}

// Purged notes that what Purging began is done, and when it was asked for.
func (j *Judge) Purged(name string, at time.Time) error {
	if err := j.Purging(name); err != nil {
		return err
	}
	j.purged[j.number[bare(name)]] = at
	return nil
}

// Choosing notes that the manager is asked at a moment to go by another strategy: from then on it may. Chose notes that it acknowledged that: from then on
// it must, whatever happens to it, until it is asked again.
func (j *Judge) Choosing(strategy string, at time.Time) {
	j.choices = append(j.choices, choice{name: strategy, at: at})
}

// Chose notes that what the last Choosing asked for is done.
func (j *Judge) Chose() {
	if last := len(j.choices) - 1; last >= 0 {
		j.choices[last].done = true
	}
}

// choice is a strategy that the manager was asked for, and whether it acknowledged that.
type choice struct {
	name string
	at   time.Time // zero: nobody asked for it
	done bool
}

// mayChoose are the strategies that may be in force: the last that was acknowledged, and those that were asked for since. A request that was not answered may
// be done late, also after the next one.
func (j *Judge) mayChoose() (names []string) {
	last := len(j.choices) - 1
	for last >= 0 && !j.choices[last].done {
		last--
	}
	for i, c := range j.choices {
		if i >= last || !c.done && c.at.Add(j.cfg.Slack).After(j.choices[last].at) {
			names = append(names, c.name)
		}
	}
	return names
}

// Stepped notes that a clock of the network is wrong by so much from a moment on, and Righted that it is right again. What the manager tells of times
// may be as wrong for as long.
func (j *Judge) Stepped(clock string, by time.Duration, at time.Time) {
	j.steps = append(j.steps, step{clock: clock, by: by, span: span{from: at}})
}

// Righted ends what Stepped began.
func (j *Judge) Righted(clock string, at time.Time) {
	for i := range j.steps {
		if s := &j.steps[i]; s.clock == clock && s.to.IsZero() {
			s.to = at
		}
	}
}

// step is a time in which a clock was wrong.
type step struct {
	clock string
	by    time.Duration
	span
}

// could are the moments that a time may mean that the manager tells: the time itself, and what it is by clocks that were wrong then.
func (j *Judge) could(at time.Time) []time.Time {
	all := []time.Time{at}
	for _, s := range j.steps {
		if t := at.Add(-s.by); !t.Before(s.from.Add(-j.cfg.Slack)) && (s.to.IsZero() || !t.After(s.to.Add(j.cfg.Slack))) {
			all = append(all, t)
		}
	}
	return all
}

// mayMean reports whether a time that the manager tells may be that of an answer of the pond, give or take the slack. A clock that was wrong then may have made it
// wrong by as much, or by less: the manager takes a time that is far from the task's for the nearest one that is not. And it dates no visit of a page before the last one, which a
// clock that was ahead may have dated.
func (j *Judge) mayMean(at, when time.Time) bool {
	within := func(from, to time.Time) bool {
		return !when.Before(from.Add(-j.cfg.Slack)) && !when.After(to.Add(j.cfg.Slack+time.Second)) // the index cuts to seconds
	}
	if within(at, at) {
		return true
	}
	for _, s := range j.steps {
		from, to := at, at.Add(-s.by)
		if to.Before(from) {
			from, to = to, from
		}
		if within(from, to) && !when.Before(s.from.Add(-j.cfg.Slack)) && (s.to.IsZero() || !when.After(s.to.Add(j.cfg.Slack+max(s.by, 0)))) {
			return true
		}
	}
	return false
}

// StandsStill notes that a peer's process is stopped from a moment on, and GoesOn that one goes on. What such a peer had open stays open meanwhile: if its
// lease ends, a host that never ends an answer has two requests in flight.
func (j *Judge) StandsStill(at time.Time) { j.still = append(j.still, span{from: at}) }

// GoesOn ends what the oldest StandsStill began.
func (j *Judge) GoesOn(at time.Time) {
	for i := range j.still {
		if j.still[i].to.IsZero() {
			j.still[i].to = at
			return
		}
	}
}

// Lies notes that a peer, by its id, is a member that lies: it may deliver what the pond did not serve, until that is taken back.
func (j *Judge) Lies(peer string) {
	if _, ok := j.liars[peer]; !ok {
		j.liars[peer] = ""
	}
}

// LiedAbout notes that a member that lies had a task of a host.
func (j *Judge) LiedAbout(origin string) {
	if n, ok := j.number[bare(origin)]; ok {
		j.lied[n] = true
	}
}

// TakenBack notes that the manager has taken back what the members delivered that lie, and that they are gone.
func (j *Judge) TakenBack() { j.taken = true }

// leastTold is the length of the shortest text that can tell what happened.
const leastTold = 12

// Told judges a text about an error that a person read somewhere: it must tell what happened, and not how a program is made.
func (j *Judge) Told(where, text string) {
	bare := strings.TrimSpace(text)
	for _, bad := range []string{"%!", "<nil>", "panic:", "fatal error:", "goroutine ", "0x", "runtime error", "unknown error", "internal error"} {
		if strings.Contains(bare, bad) {
			j.mute(where, text)
			return
		}
	}
	if len(bare) < leastTold || !strings.Contains(bare, " ") {
		j.mute(where, text)
	}
}

func (j *Judge) mute(where, text string) {
	if !j.muted[where+text] {
		j.muted[where+text] = true
		j.breach(Mute, "%s: %.300q", where, text)
	}
}
