package ledger

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
)

// deadlines is when leases end. Entries are not removed but found stale when their time comes.
type deadlines struct {
	mu   sync.Mutex
	heap deadlineHeap
	wake chan struct{}
}

type deadline struct {
	at int64 // Unix nanoseconds
	id channel.ID
}

type deadlineHeap []deadline

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h deadlineHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *deadlineHeap) Push(x any)        { *h = append(*h, x.(deadline)) }
func (h *deadlineHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// set adds a time at which the channel is to be looked at.
func (d *deadlines) set(id channel.ID, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := len(d.heap) == 0 || at.UnixNano() < d.heap[0].at
	heap.Push(&d.heap, deadline{at.UnixNano(), id})
	if first && d.wake != nil {
		close(d.wake)
		d.wake = nil
	}
}

// first is the earliest time.
func (d *deadlines) first() (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.heap) == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, d.heap[0].at), true
}

// channels are those whose leases may run.
func (d *deadlines) channels() []channel.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[channel.ID]bool{}
	var out []channel.ID
	for _, e := range d.heap {
		if !seen[e.id] {
			seen[e.id] = true
			out = append(out, e.id)
		}
	}
	return out
}

// due takes out one channel whose time has come.
func (d *deadlines) due(now time.Time) (channel.ID, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.heap) == 0 || d.heap[0].at > now.UnixNano() {
		return 0, false
	}
	return heap.Pop(&d.heap).(deadline).id, true
}

// changed is closed when a time is set that is earlier than the first.
func (d *deadlines) changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wake == nil {
		d.wake = make(chan struct{})
	}
	return d.wake
}

// clockLook is a reading of the clock that leases are judged by, and of the process's own, which goes on evenly whatever becomes of the time of day.
type clockLook struct{ wall, own time.Time }

// clockEvery is how often they are compared, at least; less than clockSlack of difference is a busy computer.
const (
	clockEvery = 5 * time.Second
	clockSlack = time.Second
)

func newClockLook(cfg *Config) clockLook { return clockLook{cfg.Clock().Round(0), cfg.Own()} }

// nowFor is the time by which a channel's fence is asked. If the clock has gained so much since the fence was last asked that its lease would end too early, the lease gets a full term, as at
// a start: its holder goes on by a clock of its own. If the clock was set back, it would end too late.
func nowFor(l *Ledger, c *channelState) time.Time {
	last := c.look
	if c.look = newClockLook(&l.cfg); last == (clockLook{}) {
		return c.look.wall
	}
	if gained := c.look.gained(last); gained.Abs() >= clockGain(l.cfg.Terms) {
		c.fence.Restart(c.look.wall, l.cfg.Terms)
		if gained < 0 {
			c.undate()
		}
		c.timed = false // it may end before the time that is noted
	}
	return c.look.wall
}

// clockGain is by how much a clock must have gained for a lease to get a full term.
func clockGain(t lease.Terms) time.Duration { return max(t.Term/10, clockSlack) }

// gained is by how much more the clock has gone on since an earlier look than time has passed: it was set forward, or the computer slept.
func (c clockLook) gained(since clockLook) time.Duration {
	return c.wall.Sub(since.wall) - c.own.Sub(since.own)
}

// forgive looks at every lease that runs, if the clock has gained so much that some would end too early or too late: see nowFor.
func forgive(l *Ledger, gained time.Duration) {
	if gained.Abs() < clockGain(l.cfg.Terms) {
		return
	}
	what := "the clock went forward by itself: leases that run get a full term"
	if gained < 0 {
		what = "the clock was set back: leases that run get a full term"
	}
	l.cfg.Log.Warn(what, "by", gained.Abs().Round(time.Second))
	for _, id := range l.deadlines.channels() {
		c, err := l.lock(id)
		if err != nil {
			l.cfg.Log.Error("a lease may end at a wrong time", "channel", id, "err", err)
			continue
		}
		nowFor(l, &c.Value)
		c.Value.timed = false
		l.watch(id, &c.Value)
		l.unlock(id, c)
	}
}

// Expire ends the leases whose time has come. Run calls it.
func (l *Ledger) Expire(ctx context.Context) error {
	now := l.cfg.Clock()
	for ctx.Err() == nil {
		id, ok := l.deadlines.due(now)
		if !ok {
			return nil
		}
		if err := l.expire(id); err != nil {
			l.deadlines.set(id, now)
			return err
		}
	}
	return nil
}

func (l *Ledger) expire(id channel.ID) error {
	c, err := l.lock(id)
	if err != nil {
		return err
	}
	defer l.unlock(id, c)
	now := nowFor(l, &c.Value) // which may be another clock's by now than the one that the lease was found due by
	n := c.Value
	step := n.fence.Tick(now)
	if err := l.take(id, &c.Value, n, step, &Job{}); errors.Is(err, ErrConflict) {
		return nil // another program has changed it, and what it has become is heard of
	} else if err != nil {
		return err
	}
	c.Value.timed = false
	l.watch(id, &c.Value)
	return nil
}
