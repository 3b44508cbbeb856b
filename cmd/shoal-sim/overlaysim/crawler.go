package overlaysim

import (
	"math"
	"time"

	"shoal/channel"
	"shoal/overlay"
	"shoal/peer/queue"
)

// crawler is a peer's queue, of peer/queue, in one life of the peer.
type crawler struct {
	s    *swarm
	who  int
	q    *queue.Queue[channel.Gen]
	wake int64 // of the next tick
	gone bool
	acts []queue.Action[channel.Gen]
}

// Quote implements overlay.Queue.
func (w *crawler) Quote(now time.Time, h channel.Header) (time.Time, bool) {
	return w.q.Quote(now, w.latest(h))
}

// Take implements overlay.Queue.
func (w *crawler) Take(now time.Time, _ channel.Signed, h channel.Header) error {
	err := w.q.Take(now, queue.Item[channel.Gen]{Key: uint64(h.Channel), Pages: h.Pages, Gap: h.Gap, Latest: w.latest(h), Value: h.Gen})
	if err == nil {
		w.at(w.s.n.now)
	}
	return err
}

// latest is the latest start that the queue looks at; zero: it takes what it has room for.
func (w *crawler) latest(h channel.Header) time.Time {
	if w.s.c.Blind {
		return time.Time{}
	}
	return h.Latest
}

// Load implements overlay.Queue.
func (w *crawler) Load(now time.Time) overlay.Load {
	return overlay.Load{Threads: threads, Slots: slots, Running: uint8(w.q.Running()), Queued: uint8(w.q.Waiting()), Backlog: min(w.q.Backlog(now), overlay.MaxBacklog)}
}

// at has the queue ticked then.
func (w *crawler) at(when int64) {
	if w.wake >= w.s.n.now && w.wake <= when {
		return
	}
	w.wake = when
	w.s.n.queue.Push(when, letter{do: func() {
		if !w.gone && w.wake == when {
			w.wake = math.MinInt64
			w.tick()
		}
	}})
}

func (w *crawler) tick() {
	s := w.s
	w.acts = w.q.Tick(s.n.time(), w.acts[:0])
	for _, a := range w.acts {
		if a.Kind == queue.Start {
			s.start(w, s.tasks[a.Item.Key-1], a.Item.Value)
		} // what is dropped is missed by the manager when its claim does not come
	}
	if d := w.q.Deadline(); !d.IsZero() {
		w.at(int64(d.Sub(epoch)))
	}
	if s.c.Steal && w.q.Running() < threads && w.q.Waiting() == 0 {
		s.steal(w)
	}
}
