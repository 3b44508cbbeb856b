package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/recrawl"
)

// roster is which channels there are, and what operators want of them. Package desk writes their wishes to the database and calls its methods.
// Owned by the loop; exported methods may be called by any goroutine.
type roster struct {
	*core
	keep   *keeper
	tune   *tuning
	near   *nearness
	lost   *lost
	adding int // links of the channel that is being added
}

// add takes a channel of the database into the loop's state.
func (ro *roster) add(now time.Time, r channel.Hot) error {
	if r.State == channel.Removed {
		return nil
	}
	var f recrawl.Facts
	issue, wait, err := parseIssue(r.Lease)
	if err != nil {
		return fmt.Errorf("channel %d: %w", r.ID, err)
	}
	if len(r.Facts) > 0 {
		if err := f.Restore(r.Facts); err != nil {
			return fmt.Errorf("channel %d: %w", r.ID, err)
		}
	}
	anew := ro.tune.redate(now, &f, &issue, r.Submitted)
	if f.Weight == 0 {
		f.Weight = r.Weight
	}
	f.Flags &^= recrawl.Pinned | recrawl.Paused // an operator may have changed that while no manager ran, or just before one was killed
	if r.Group > 0 {
		f.Group, f.Flags = uint8(r.Group-1), f.Flags|recrawl.Pinned
	}
	if r.State != channel.Active {
		f.Flags |= recrawl.Paused
	}
	switch issue.Phase {
	case lease.Awaited:
		ro.lost.tasks = append(ro.lost.tasks, awaited{r.ID, issue.Gen})
	case lease.Leased:
		ro.lost.over = append(ro.lost.over, awaited{r.ID, issue.Live})
	}
	if issue.Out() || issue.Phase == lease.Pausing {
		f.Out = 1
	} else if f.Updated == 0 { // what was handed out of it came to nothing: it is due as a new one, and not after an interval of which nothing is known
		f.Submitted = 0
	}
	if f.Updated > 0 {
		ro.tally.visited++
	}
	ro.adding = r.Links
	s := ro.sched.Add(f)
	if len(r.Facts) == 0 && ro.tune.limits.Weights == recrawl.RankWeights {
		ro.tune.weigh(s, f.Weighed(), 0)
	}
	ro.table.Put(s, r.ID, r.Host)
	if anew {
		ro.keep.issues[s], ro.keep.dirty[s] = issue, struct{}{}
	}
	if f.Future(ro.clock.At(now)) > 0 {
		ro.tune.future.add(s)
	}
	ro.table.SetLinks(s, r.Links)
	ro.machine.Restore(now, s, issue)
	if wait.After(now) && r.State == channel.Active {
		if most := now.Add(ro.cfg.Failing.MaxPause); wait.After(most) { // the clock was ahead when the crawl failed
			wait = most
		}
		ro.machine.NotBefore(s, wait)
	}
	return nil
}

// wake has a channel wait no longer for that its last crawl failed.
func (ro *roster) wake(s recrawl.Slot) error {
	if ro.machine.Until(s).IsZero() {
		return nil
	}
	ro.machine.NotBefore(s, time.Time{})
	ro.keep.dirty[s] = struct{}{}
	if _, held := ro.keep.held(s); held {
		return nil
	}
	_, err := ro.keep.issue(s) // what is held is written
	return err
}

const adoptBatch = 2000 // channels that the loop takes in between two looks at the calendar

// Adopt takes in the channels of the database, from first to last, that the loop does not have yet. It calls taken after each, and returns
// how many of them are on blocked hosts. Other managers are told first: they take theirs in at the same time.
func (ro *roster) Adopt(ctx context.Context, first, last channel.ID, taken func()) (blocked int, err error) {
	failed := ro.tell(ctx, noteAdopt, noted{First: first, Last: last})
	blocked, err = ro.adopt(ctx, taken, func(f func(channel.Hot) error) error { return ro.cfg.Store.Scan(ctx, first, last, f) })
	return blocked, errors.Join(failed, err)
}

// adopt takes in those channels of a scan that are this manager's and that the loop does not have.
func (ro *roster) adopt(ctx context.Context, taken func(), scan func(func(channel.Hot) error) error) (blocked int, err error) {
	batch := make([]channel.Hot, 0, adoptBatch)
	flush := func() error {
		var failed error
		err := ro.surely(func(now time.Time) {
			for _, h := range batch {
				if ro.machine.Blocked(h.Host) != "" {
					blocked++
				}
				if _, known := ro.table.Find(h.ID); known { // several managers also look by themselves for what is new
					continue
				}
				if ro.tenancy.mine(h.Host) {
					failed = errors.Join(failed, ro.add(now, h))
				}
				taken()
			}
		})
		batch = batch[:0]
		return errors.Join(err, failed)
	}
	err = scan(func(h channel.Hot) error {
		h.Lease, h.Facts = slices.Clone(h.Lease), slices.Clone(h.Facts) // valid during this call only
		if batch = append(batch, h); len(batch) < adoptBatch {
			return nil
		}
		return flush()
	})
	return blocked, errors.Join(err, flush())
}

// Edited takes in that an operator has changed a channel's settings or state in the database.
func (ro *roster) Edited(ctx context.Context, before, after *channel.Channel) error {
	ctx = context.WithoutCancel(ctx) // the loop ends what waits for it
	if away, err := ro.elsewhere(ctx, after.ID); err != nil || away {
		return errors.Join(err, ro.tell(ctx, noteEdited, noted{Before: before.Marshal(), After: after.Marshal()}))
	}
	var failed error
	err := ro.surely(func(now time.Time) {
		s, ok := ro.table.Find(after.ID)
		if !ok {
			return
		}
		turned := after.State != before.State // else what the loop has not written yet is not overtaken
		if turned {
			delete(ro.keep.states, s)
			if after.State == channel.Active {
				failed = ro.machine.Unmark(s)
			}
		}
		failed = errors.Join(failed, ro.wake(s))
		ro.keep.dirty[s] = struct{}{}
		ro.sched.Edit(s, func(f *recrawl.Facts) {
			f.Weight = f.Weighed() * Importance(&after.Settings) / Importance(&before.Settings)
			f.Flags &^= recrawl.Pinned
			if turned {
				f.Flags &^= recrawl.Paused
				if after.State != channel.Active {
					f.Flags |= recrawl.Paused
				}
			}
			if after.Settings.Group > 0 {
				f.Group, f.Flags = uint8(after.Settings.Group-1), f.Flags|recrawl.Pinned
			}
		})
		if turned && after.State != channel.Active {
			ro.rest(s)
		}
		ro.event(s, now, ro.keep.gen(s), "edited", "", "by an operator")
	})
	return errors.Join(err, failed)
}

// Forget takes a channel out of all that the loop holds. What is still out of it comes to nothing.
func (ro *roster) Forget(ctx context.Context, ch *channel.Channel) error {
	if away, err := ro.elsewhere(ctx, ch.ID); err != nil || away {
		return errors.Join(err, ro.tell(ctx, noteForget, noted{Before: ch.Marshal()}))
	}
	var failed error
	err := ro.onLoop(ctx, func(now time.Time) {
		gone, err := ro.forget(now, ch.ID, ch.Scope.Host)
		if failed = err; gone {
			ro.sizes.gone(&ch.Learnt)
		}
	})
	return errors.Join(err, failed)
}

// Kept takes in again a channel that was to be removed, and is still in the database. The archive is asked whether its task has ended: the loop may have heard of that as of no channel's.
func (ro *roster) Kept(ctx context.Context, ch *channel.Channel) error {
	ctx = context.WithoutCancel(ctx)
	back := 0
	_, err := ro.Adopt(ctx, ch.ID, ch.ID, func() { back++ })
	if back > 0 {
		err = errors.Join(err, ro.surely(func(time.Time) { ro.sizes.back(&ch.Learnt) }))
		if _, gone := ro.cfg.Store.Channel(ctx, ch.ID); errors.Is(gone, channel.ErrUnknown) { // somebody else has removed it meanwhile
			err = errors.Join(err, ro.Forget(ctx, ch))
		}
	}
	if err != nil {
		return fmt.Errorf("the running manager has let the channel go, and takes it in again when it is started anew: %w", err)
	}
	return nil
}

// forget reports whether the loop had the channel.
func (ro *roster) forget(now time.Time, id channel.ID, name string) (gone bool, err error) {
	s, ok := ro.table.Find(id)
	if !ok {
		return false, nil
	}
	if err := ro.standOff(now, id, name); err != nil {
		return false, err
	}
	ro.letGo(s)
	ro.table.Drop(s)
	return true, nil
}

// letGo takes a channel out of all that the loop holds but the table.
func (ro *roster) letGo(s recrawl.Slot) {
	ro.machine.Forget(s)
	ro.keep.forget(s)
	delete(ro.near.complaints, s)
	ro.events.drop(ro.table.ID(s))
	for _, w := range ro.ordered() {
		w.drop(ro.table.ID(s))
	}
	if ro.sched.Facts(s).Updated > 0 {
		ro.tally.visited--
	}
	ro.sched.Remove(s)
}

// release takes a channel out of all that the loop holds, since it is another manager's now, as are all of its host.
func (ro *roster) release(s recrawl.Slot) {
	for _, w := range ro.ordered() {
		w.give(ro.table.ID(s), ro.cfg.Now())
	}
	ro.letGo(s)
	ro.table.DropAll(s)
}

// IDs are n of the channels that the loop holds, or that the database does where other managers hold some, from the from-th on, and how many there are.
func (ro *roster) IDs(ctx context.Context, from, n int) (ids []channel.ID, total int, err error) {
	if ro.tenancy != nil { // of all managers
		return ro.cfg.Store.Matching(ctx, "", from, n)
	}
	err = ro.onLoop(ctx, func(time.Time) {
		total = ro.sched.Len()
		for s, seen := recrawl.Slot(0), 0; int(s) < ro.table.Len() && len(ids) < n; s++ {
			if !ro.table.Used(s) {
				continue
			}
			if seen++; seen > from {
				ids = append(ids, ro.table.ID(s))
			}
		}
	})
	return ids, total, err
}
