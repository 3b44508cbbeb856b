package manager

import (
	"context"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/trust"
	"shoal/overlay"
)

// deliveries is the auditor as it takes deliveries in.
type deliveries struct{ *auditor }

// take notes a delivery that is to be judged.
func (d deliveries) take(before string) (u int) {
	d.unread = append(d.unread, unread{before: before})
	return d.read + len(d.unread) - 1
}

// judge has a clerk judge a delivery.
func (d deliveries) judge(u int, by overlay.ID, id channel.ID, gen channel.Gen, pages int) {
	of, _ := d.trust.Peer(d.meet(by))
	d.errands.allow(pages, of.Standing == trust.Newcomer)
	if !d.clerks.add(id, func(ctx context.Context) {
		err := d.auditor.judge(ctx, by, id, gen)
		if ctx.Err() != nil {
			return // the next manager reads it again
		}
		d.post(ctx, func(time.Time) { d.settle(u, err) })
	}) {
		d.settle(u, errTooMany)
	}
}

// lateDelivery is what a peer brings after its lease is over, chunk by chunk. It is one delivery, and judged as one: of each alone a Machine could not see what it sees of all, and
// a newcomer's one task would count as many.
type lateDelivery struct {
	u     int // of unread
	by    overlay.ID
	gen   channel.Gen
	pages int
	since time.Time // its first chunk: a peer that brings one now and then does not put off what is judged
}

// lateWaiting bounds the late deliveries that are waited for.
const lateWaiting = 4096

// broughtLate notes a chunk that came after the lease was over.
func (d deliveries) broughtLate(before string, e *archive.Entry) {
	if l := d.late[e.Channel]; l != nil && l.gen == e.Event.Gen && l.by == overlay.ID(e.Peer) {
		l.pages++
		return
	}
	d.claimEnded(e.Channel)
	l := &lateDelivery{u: d.take(before), by: overlay.ID(e.Peer), gen: e.Event.Gen, pages: 1, since: d.cfg.Now()}
	if d.late[e.Channel] = l; len(d.late) > lateWaiting {
		d.claimEnded(e.Channel)
	}
}

// claimEnded has what came late of a channel judged: its peer has given the task back, or another one has claimed the channel.
func (d deliveries) claimEnded(id channel.ID) {
	if l := d.late[id]; l != nil {
		delete(d.late, id)
		d.judge(l.u, l.by, id, l.gen, l.pages)
	}
}

// judgeLate has those judged whose peers neither give the task back nor are followed by others within a lease's term.
func (d deliveries) judgeLate(now time.Time) {
	for id, l := range d.late {
		if now.Sub(l.since).Abs() >= d.cfg.Terms.Term {
			d.claimEnded(id)
		}
	}
}
