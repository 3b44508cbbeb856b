package manager

import (
	"fmt"
	"slices"
	"time"

	"shoal/channel/lease"
	"shoal/internal/plain"
	"shoal/recrawl"
)

// future are channels that are dated so much later than now that one of two clocks was wrong, that of then or the present one. They are not crawled before that time comes, unless an
// operator sets the clock or, with Config.ClockRight, says that it is right. Owned by the loop.
type future struct {
	slots  []recrawl.Slot // futureMost of them at most
	looked time.Time
}

const (
	futureMost  = 1 << 18
	futureEvery = time.Minute // how often is looked which of them still are

	noticeFuture = "future"
)

// redate dates a channel that comes from the database, where the clock may have been ahead, here or at the manager that had the channel, and issued its last task at some time. It tells
// whether the database is to have that at once.
func (u *tuning) redate(now time.Time, f *recrawl.Facts, issue *lease.Issue, issued time.Time) (anew bool) {
	at := u.clock.At(now)
	f.DatedBy(at)
	if now.Before(plausible) {
		return false
	}
	if by := issued.Sub(now); by > gainSlack && issue.Out() && issue.Deadline().After(issued) && issue.Advance(by) { // a claim is awaited for as long as ever; if that was said before, and is written, for less
		anew = true
	}
	if issue.Phase == lease.Pausing && issue.Deadline().After(now.Add(u.cfg.Terms.MaxBackoff)) { // no pause is that long, and nothing is out
		issue.Withdraw()
		anew = true
	}
	if !u.cfg.ClockRight {
		return anew
	}
	if f.Future(at) > 0 {
		f.Redate(at)
		anew = true
	}
	return issue.Bound(now, maxLatest+u.cfg.Terms.Slack) || anew // no task may start later either
}

// add notes a channel that is dated in the future.
func (fu *future) add(s recrawl.Slot) {
	if len(fu.slots) < futureMost {
		fu.slots, fu.looked = append(fu.slots, s), time.Time{}
	}
}

// judgeDates tells the operator of channels that are dated in the future, as long as there are some.
func (u *tuning) judgeDates(now time.Time) {
	fu := &u.future
	if len(fu.slots) == 0 || !fu.looked.IsZero() && now.Sub(fu.looked).Abs() < futureEvery {
		return
	}
	fu.looked = now
	most := recrawl.Tick(0)
	fu.slots = slices.DeleteFunc(fu.slots, func(s recrawl.Slot) bool { // crawled since, or removed
		if !u.table.Used(s) {
			return true
		}
		f := u.sched.Facts(s)
		by := f.Future(u.clock.At(now))
		most = max(most, by)
		return by == 0
	})
	text := ""
	switch n := len(fu.slots); {
	case n == 1:
		text = "One channel is dated"
	case n == futureMost:
		text = fmt.Sprintf("At least %s are dated", plain.Count(n, "channel"))
	case n > 1:
		text = plain.Count(n, "channel") + " are dated"
	}
	if text != "" {
		text += fmt.Sprintf(" up to %s later than now, and crawled by no strategy before then: this computer's clock is far behind, or was far ahead. If it is behind, set it right and restart the manager. If it is right, restart the manager once with --clock-right.", plain.Span(time.Duration(most)*u.cfg.Tick))
	}
	u.tally.notice(noticeFuture, text)
}
