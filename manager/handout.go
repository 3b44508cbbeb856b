package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager/conduct"
	"shoal/manager/dispatch"
	"shoal/overlay"
)

// handout runs the dispatcher's machine: it passes orders to the placers, tells the machine what came of them, and does what it asks for. Owned
// by the loop.
type handout struct {
	*core
	keep    *keeper
	near    *nearness
	learner *learner
	errands *errands
	auditor *auditor
	jobs    chan<- job
	stopped bool // nothing new is handed out, as the manager is about to end
}

// dispatch hands out what is due, as far as the swarm has room.
func (h *handout) dispatch(ctx context.Context, now time.Time) {
	h.machine.Close(h.stopped || len(h.tally.blocking()) > 0)
	for _, o := range h.machine.Tick(now) {
		if j, ok := h.job(now, o); ok {
			h.jobs <- j // the machine keeps it below the queue's length
		}
	}
	h.near.clear()
	h.near.survey(ctx)
	h.carryOut(now)
}

// job adds to an order what the loop knows and the database does not yet.
func (h *handout) job(now time.Time, o dispatch.Order) (job, bool) {
	if isErrand(o.Slot) {
		j, ok := h.errands.job(o, h.near.hosts[o.Slot])
		if !ok {
			h.machine.Unsent(now, o, unsentRetry)
		}
		j.near = h.near.named[o.Slot]
		return j, ok
	}
	if _, waits := h.keep.states[o.Slot]; !waits { // which is written with the generation only if something else is
		delete(h.keep.dirty, o.Slot)
	}
	delete(h.keep.issues, o.Slot)
	j := job{Order: o, id: h.table.ID(o.Slot), ch: h.near.read[o.Slot], host: h.near.hosts[o.Slot], near: h.near.named[o.Slot]}
	if r, ok := h.keep.records[h.table.Host(o.Slot)]; ok {
		h := *r
		h.Record.Samples, h.Record.Best = slices.Clone(r.Record.Samples), slices.Clone(r.Record.Best)
		j.host = &h
	}
	return j, true
}

// carryOut does what the machine asks for. Called on the loop after whatever the machine was told.
func (h *handout) carryOut(now time.Time) {
	for _, a := range h.machine.Acts() {
		switch a.Kind {
		case dispatch.Persist:
			if isErrand(a.Slot) {
				h.errands.at(a.Slot).issue = a.Issue
				continue
			}
			h.keep.issues[a.Slot] = a.Issue
			h.keep.dirty[a.Slot] = struct{}{}
		case dispatch.Nothing:
			note := "to be handed out again"
			if _, waits := h.machine.Issue(a.Slot); !waits {
				note = "the channel is paused"
			}
			h.event(a.Slot, now, a.Issue.Gen, "came to nothing", "", note)
		case dispatch.GaveUp:
			if !isErrand(a.Slot) {
				h.learner.mark(now, a.Slot, a.Note)
			}
		case dispatch.Swallowed:
			h.cfg.Swarm.Wasted(overlay.ID(a.Peer), a.Since)
			h.noteWaste(now, a.Since, string(a.Peer), conduct.Unclaimed)
		case dispatch.Unread:
			h.log.Error("not handed out", "err", a.Err)
			h.tally.fault(kindStore)
		}
	}
}

// unsent takes in that tasks never left, and why.
func (h *handout) unsent(now time.Time, fault string, tasks ...job) {
	h.tally.fault(fault)
	for _, j := range tasks {
		h.machine.Unsent(now, j.Order, unsentRetry)
	}
}

const unsentRetry = 10 * time.Second // until a task that never left is tried again

// notDurable takes in that the database refuses to write.
func (h *handout) notDurable(now time.Time, err error, tasks []job) {
	h.tally.notice(noticeStore, "Nothing new is handed out: "+plain.Error(err))
	h.machine.Hold(now.Add(unsentRetry))
	h.unsent(now, kindStore, tasks...)
}

// notDeposited takes in that the archive takes no task.
func (h *handout) notDeposited(now time.Time, err error, j job) {
	h.tally.notice("archive", "The archive takes no new tasks: "+plain.Error(err))
	h.unsent(now, kindArchive, j)
}

// placed takes the answer of the overlay.
func (h *handout) placed(now time.Time, j job, host string, p overlay.Placed) {
	h.tally.notice("archive", "")
	if h.machine.Placed(now, j.Order, dispatch.Peer(p.Peer), p.Start) {
		h.event(j.Slot, now, j.Gen, "accepted", string(p.Peer), "starts "+p.Start.Format(time.TimeOnly))
		if !isErrand(j.Slot) {
			h.tally.landed(p)
			h.auditor.handed(p.Peer)
		}
		h.noteDeed(now, string(p.Peer), conduct.Took, 1)
	}
	h.near.measured(host, p.Samples)
}

// refused takes the overlay's word that no peer could start the task in time.
func (h *handout) refused(now time.Time, j job, why error) {
	if h.machine.Refused(now, j.Order) {
		h.event(j.Slot, now, j.Gen, "refused", "", why.Error())
	}
	if isErrand(j.Slot) {
		h.errands.refused(now, j.Slot, j.errand)
	}
}

// unsure handles a placing that broke off.
func (h *handout) unsure(now time.Time, j job, why error) {
	h.tally.fault(kindPlacing)
	if h.machine.Unsure(now, j.Order) {
		h.event(j.Slot, now, j.Gen, "placing broke off", "", fmt.Sprintf("place: %v", why))
	}
}

// outran handles a deposit that the archive refused: it knows higher generations.
func (h *handout) outran(now time.Time, j job, highest channel.Gen) {
	if h.machine.Outran(now, j.Order, highest) {
		h.event(j.Slot, now, j.Gen, "outrun", "", "the archive knows higher generations; this manager's data is older")
	}
}
