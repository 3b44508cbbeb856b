package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"shoal/peer/queue"
)

// may reports whether the version that is here may take over now: its volunteer says so, nothing is crawled, or it has waited for a day.
func (u *updater) may() bool {
	if u.taken() {
		return true
	}
	p := u.s.running()
	if u.setting() != updateAuto || p == nil {
		return false
	}
	list := p.statuses()
	if !undisturbed(list) {
		return false
	}
	if all := together(list); len(all.Running)+len(all.Waiting) == 0 {
		return true
	}
	rec, err := u.folder.Load()
	return err == nil && time.Since(rec.Since) > updateLatest*u.minute
}

// taken reports whether the volunteer has said that the new version is to be taken now.
func (u *updater) taken() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.take
}

// undisturbed reports whether the program may end for a new version as far as orders and limits go. With it would end that a network finishes or drains by its
// volunteer's order; a pause goes on in the new version. While pauses and limits hold all networks, the computer is left alone.
func undisturbed(list []said) bool {
	held := 0
	for _, x := range list {
		switch {
		case x.Mode == queue.Finish.String() || x.Mode == queue.Drain.String():
			return false
		case x.Mode == queue.Paused.String() || x.Hold != "":
			held++
		}
	}
	return held == 0 || held < len(list)
}

// errOrdered is returned when the volunteer gives an order while the new version is about to take over.
var errOrdered = errors.New("an order was given while it was about to take over; it waits")

// swap lets running tasks come to their end, and notes that the new version runs next. Networks for which its volunteer has given an order, such as a pause, are
// left as they are.
func (u *updater) swap(ctx context.Context) (err error) {
	p := u.s.running()
	if p == nil {
		return errNotJoined
	}
	before := p.statuses()
	if !u.taken() && !undisturbed(before) {
		return errOrdered
	}
	var rest []*network
	for _, n := range p.nets.all() {
		if n.agent.Rest() {
			rest = append(rest, n)
		}
	}
	defer func() {
		for _, n := range rest {
			if err != nil { // the volunteer may have refused it meanwhile
				n.agent.Rouse()
			}
		}
	}()
	for end := time.Now().Add(finishLatest * u.minute); ; {
		list := p.statuses()
		if !u.taken() && ordered(list, before, rest) {
			return errOrdered
		}
		running := 0
		for _, x := range list {
			if x.Rests {
				running += len(x.Running)
			}
		}
		if running == 0 || !time.Now().Before(end) {
			break
		}
		if err := pause(ctx, lookEvery(u.minute)); err != nil {
			return err
		}
	}
	if err := u.change(begun); err != nil {
		return err
	}
	u.log.Info("makes room for a new version")
	u.mu.Lock()
	u.swapped = true
	u.mu.Unlock()
	return nil
}

// ordered reports whether the volunteer has given an order since all were as before says, and the networks of rest began to finish.
func ordered(list, before []said, rest []*network) bool {
	for _, x := range list {
		if slices.Contains(rest, x.n) != x.Rests {
			return true
		}
		if x.Rests {
			continue
		}
		if i := slices.IndexFunc(before, func(y said) bool { return x.n == y.n }); i < 0 || x.Mode != before[i].Mode {
			return true
		}
	}
	return false
}
