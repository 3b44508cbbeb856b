package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// What operators want of single channels and hosts.

// CrawlNow has a channel crawled as soon as there is room, whatever the strategy says. One that was given up is active again; one that is paused
// stays so. A task of it that a peer has not begun is taken back: the peer may be gone, and would be waited for until the task's latest start.
func (ro *roster) CrawlNow(ctx context.Context, id channel.ID) error {
	return ro.crawlNow(ctx, id, false)
}

// crawlNow is CrawlNow or, of one channel, CrawlWhole, which is not durable yet.
func (ro *roster) crawlNow(ctx context.Context, id channel.ID, whole bool) error {
	ch, err := ro.cfg.Store.Channel(ctx, id)
	if err != nil {
		return err
	}
	if away, err := ro.elsewhere(ctx, id); err != nil || away {
		return errors.Join(err, ro.tell(ctx, noteCrawl, noted{ID: id, Whole: whole}))
	}
	again, err := ro.crawlAsRead(ctx, &ch, whole, true)
	if again && err == nil {
		if ch, err = ro.cfg.Store.Channel(ctx, id); err == nil {
			_, err = ro.crawlAsRead(ctx, &ch, whole, false)
		}
	}
	return err
}

// crawlAsRead is crawlNow of a channel that was read from the database. If it is doubted, nothing is done where its state was written since, and again is true.
func (ro *roster) crawlAsRead(ctx context.Context, ch *channel.Channel, whole, doubted bool) (again bool, err error) {
	id := ch.ID
	var answer error
	back := channel.Gen(0)
	err = ro.do(ctx, func(now time.Time) {
		s, ok := ro.table.Find(id)
		if !ok {
			answer = fmt.Errorf("%w: %d", channel.ErrUnknown, id)
			return
		}
		follows := whole && ro.machine.Gen(s) != 0
		if follows {
			if ro.whole.add(id, wholeCrawl{}); ro.machine.IsOut(s) {
				return
			}
		}
		if ro.machine.IsOut(s) {
			if back = dispatch.Anew(ro.machine, s); back == 0 {
				answer = fmt.Errorf("%w: channel %d is being crawled already", ErrAsk, id)
				return
			}
			ro.asked.add(id, wholeCrawl{ordered: true})
			ro.event(s, now, back, "crawl now", "", anewNote)
			return
		}
		if whole && ro.sched.Facts(s).Flags&recrawl.Paused != 0 { // by an operator, or it was given up
			return
		}
		if again = doubted && ro.outdated(s, ro.keep.stateOf(s, ch)); again {
			return
		}
		if why := ro.machine.Blocked(ro.table.Host(s)); why != "" {
			answer = fmt.Errorf("%w: the host of channel %d is blocked (%s): unblock it first, with shoal host unblock %s", ErrAsk, id, why, ch.Scope.Host)
			return
		}
		if answer = ro.machine.CrawlNow(now, s); answer != nil {
			return
		}
		if ro.keep.stateOf(s, ch) == channel.Marked {
			ro.keep.setState(s, channel.Active, "")
			ro.sched.Edit(s, func(f *recrawl.Facts) { f.Flags &^= recrawl.Paused })
		}
		note := askedNote
		if whole {
			note = withdrawnNote
		}
		switch {
		case !whole:
			ro.asked.add(id, wholeCrawl{ordered: true})
		case !follows:
			ro.whole.add(id, wholeCrawl{true, ro.machine.Gen(s)})
		}
		ro.event(s, now, ro.machine.Gen(s), "crawl now", "", note)
	})
	if back != 0 {
		if failed := ro.cfg.Archive.TakeBack(ctx, id, back); failed != nil {
			answer = fmt.Errorf("take back the task of channel %d that a peer has: %w", id, failed)
		}
	}
	return again, errors.Join(err, answer)
}

// outdated reports whether a channel's state is another one than the loop goes by.
func (ro *roster) outdated(s recrawl.Slot, state channel.State) bool {
	return (ro.sched.Facts(s).Flags&recrawl.Paused != 0) != (state != channel.Active)
}

// Pause stops handing a channel out, or goes on with it. What is out runs to its end; what came to nothing and waits to be handed out again waits no more.
func (ro *roster) Pause(ctx context.Context, id channel.ID, paused bool) error {
	state, word := channel.Active, "resumed"
	if paused {
		state, word = channel.Paused, "paused"
	}
	if away, err := ro.elsewhere(ctx, id); err != nil || away {
		if err == nil { // no manager may have it at the moment: then its next one reads this
			err = ro.cfg.Store.Update(ctx, ro.epoch, id, func(ch *channel.Channel) {
				if ch.State != channel.Removed {
					ch.State, ch.Reason = state, ""
				}
			})
		}
		if err == nil {
			err = ro.tell(ctx, notePause, noted{ID: id, Paused: paused})
		}
		return err
	}
	var answer error
	err := ro.do(ctx, func(now time.Time) {
		s, ok := ro.table.Find(id)
		if !ok {
			answer = fmt.Errorf("%w: %d", channel.ErrUnknown, id)
			return
		}
		if answer = errors.Join(ro.machine.Unmark(s), ro.wake(s)); answer != nil {
			return
		}
		ro.sched.Edit(s, func(f *recrawl.Facts) {
			f.Flags &^= recrawl.Paused
			if paused {
				f.Flags |= recrawl.Paused
			}
		})
		if paused {
			ro.rest(s)
		}
		ro.keep.setState(s, state, "")
		ro.event(s, now, ro.keep.gen(s), word, "", "by an operator")
	})
	return errors.Join(err, answer)
}

// rest has a channel that is paused not handed out again, nor after a restart because it was asked for before.
func (ro *roster) rest(s recrawl.Slot) {
	dispatch.Rest(ro.machine, s)
	ro.asked.drop(ro.table.ID(s))
}

// SetBlocked has nothing handed out on a host any more; an empty reason lifts it.
func (ro *roster) SetBlocked(ctx context.Context, origin, why string) error {
	if err := ro.tell(ctx, noteBlocked, noted{Host: origin, Why: why}); err != nil {
		return err
	}
	var failed error
	err := ro.surely(func(now time.Time) {
		key := channel.KeyOf(origin)
		ro.machine.Block(key, why)
		if ro.tenancy.mine(key) {
			failed = ro.keep.insist(now, origin, func(h *channel.Host) bool {
				was := h.Blocked
				h.Blocked = why
				return was != why
			})
		}
		if why == "" {
			ro.sched.Rerank() // those that were put off come up again
		}
	})
	return errors.Join(err, failed)
}

// ResetHost forgets what reports have told of a host: how long to wait, where it is, and that it is blocked, if they have told that. It waits for a task that may still be out.
func (ro *roster) ResetHost(ctx context.Context, origin string) error {
	if err := ro.tell(ctx, noteReset, noted{Host: origin}); err != nil {
		return err
	}
	var failed error
	err := ro.surely(func(now time.Time) {
		key, latest := channel.KeyOf(origin), now.Add(ro.cfg.Terms.Term)
		if !Stays(ro.machine.Blocked(key)) {
			ro.machine.Block(key, "")
		}
		ro.machine.Hurry(key, latest)
		if ro.tenancy.mine(key) {
			failed = ro.keep.insist(now, origin, func(h *channel.Host) bool {
				ResetHost(h, latest)
				return true
			})
		}
		ro.near.learn(key)
		ro.sched.Rerank()
	})
	return errors.Join(err, failed)
}

// ResetHost makes a host's record that of a host of which only the name is known. It may be visited at latest at the given time: until then a task whose
// lease runs may still be at it.
func ResetHost(h *channel.Host, latest time.Time) {
	next := h.NextVisit
	if next.After(latest) {
		next = latest
	}
	blocked := h.Blocked
	if *h = (channel.Host{Name: h.Name, NextVisit: next, Rest: h.Rest}); Stays(blocked) {
		h.Blocked = blocked
	}
}

// StandOff leaves a channel's host alone until a task that is out, and is called back, must have ended.
func (ro *roster) StandOff(ctx context.Context, id channel.ID, host string) error {
	if away, err := ro.elsewhere(ctx, id); err != nil || away {
		return errors.Join(err, ro.tell(ctx, noteStandOff, noted{ID: id, Host: host}))
	}
	var failed error
	err := ro.onLoop(ctx, func(now time.Time) { failed = ro.standOff(now, id, host) })
	return errors.Join(err, failed)
}

func (ro *roster) standOff(now time.Time, id channel.ID, name string) error {
	s, ok := ro.table.Find(id)
	if !ok {
		return nil
	}
	until, ok := ro.machine.StandOff(now, s)
	if !ok {
		return nil
	}
	r, err := ro.keep.hostRecord(name)
	if err != nil {
		return err
	}
	ro.leave(now, r, until)
	return nil
}
