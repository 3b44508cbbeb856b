package p2p

import (
	"cmp"
	"context"
	"slices"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/overlay"
)

// What the members of this process ask of the overlay: that tasks are placed and handed over, hosts surveyed.

// Place finds a near peer that takes a task, and asks the named one first. overlay.ErrRefused says that for certain no peer has the task.
func (r *Runner) Place(ctx context.Context, s channel.Signed, h channel.Header, record coords.HostRecord, named overlay.Named) (overlay.Placed, error) {
	e, err := r.await(ctx, func(now time.Time, req uint64) []overlay.Send {
		return r.node.PlaceAt(now, req, overlay.Task{Signed: s, Header: h}, record, named)
	})
	return e.Placed, err
}

// Survey has peers measure the round-trip time to a Web host: some random ones, then in rounds those that are probably nearest to it, until
// one is very near. A host that was measured before is measured by some that are probably nearest, or by the peer that the survey names. No samples and no error: no
// peer that was asked can reach it.
func (r *Runner) Survey(ctx context.Context, of overlay.Survey, record coords.HostRecord) ([]coords.Sample, error) {
	e, err := r.await(ctx, func(now time.Time, req uint64) []overlay.Send { return r.node.Survey(now, req, of, record) })
	return e.Placed.Samples, err
}

// await has the node begin something, and waits for what it comes to.
func (r *Runner) await(ctx context.Context, begin func(now time.Time, req uint64) []overlay.Send) (overlay.Event, error) {
	done := make(chan overlay.Event, 1)
	ok := r.post(ctx, func(life context.Context, now time.Time) {
		r.nextReq++
		r.waiting[r.nextReq] = done
		r.send(life, begin(now, r.nextReq))
	})
	if !ok {
		return overlay.Event{}, ctx.Err()
	}
	select {
	case e := <-done:
		return e, e.Err
	case <-ctx.Done():
		return overlay.Event{}, ctx.Err()
	}
}

// Delivered says that a peer brought pages of a task. It does not wait: where the loop is busy it does without. So does Wasted.
func (r *Runner) Delivered(peer overlay.ID) {
	r.hint(func(_ context.Context, now time.Time) { r.node.Trust(now, peer) })
}

// Wasted says that a peer took a task then, and that the task came to nothing by the peer's doing.
func (r *Runner) Wasted(peer overlay.ID, took time.Time) {
	r.hint(func(_ context.Context, now time.Time) { r.node.Doubt(now, peer, took) })
}

// GaveBack says that a peer gave a task back that it had begun.
func (r *Runner) GaveBack(peer overlay.ID) {
	r.hint(func(_ context.Context, now time.Time) { r.node.GaveBack(now, peer) })
}

func (r *Runner) hint(f job) {
	select {
	case r.inbox <- f:
	default:
	}
}

// Handoff gives unclaimed tasks to other peers, the nearest first, since what is near this peer is near the tasks'
// hosts. It returns the tasks that no peer took.
func (r *Runner) Handoff(ctx context.Context, tasks []overlay.Task) (rest []overlay.Task) {
	known, here := slices.Clone(r.Peers()), r.Coord()
	slices.SortFunc(known, func(a, b overlay.PeerRecord) int {
		return cmp.Compare(coords.Distance(&here, &a.Coord), coords.Distance(&here, &b.Coord))
	})
	for _, p := range known {
		if len(tasks) == 0 || ctx.Err() != nil {
			break
		}
		if p.Load.Threads == 0 {
			continue
		}
		part := tasks[:min(len(tasks), overlay.MaxHandoff)]
		got, err := r.handoff(ctx, p, part)
		if err != nil {
			continue
		}
		var left []overlay.Task
		for i, t := range part {
			if i >= len(got) || !got[i] {
				left = append(left, t)
			}
		}
		tasks = append(left, tasks[len(part):]...)
	}
	return tasks
}
