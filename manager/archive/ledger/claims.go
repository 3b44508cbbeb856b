package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/wire/uplink"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/keylock"
	"shoal/manager/archive/schema"
)

// take makes a step of the fence durable and, only then, the channel's state. n is the channel after the step; j says what else is to be
// durable with it.
func (l *Ledger) take(id channel.ID, c *channelState, n channelState, step lease.Step, j *Job) error {
	if !step.Persist {
		return nil
	}
	v, err := n.value()
	if err != nil {
		return err
	}
	n.stored = v
	was, is := c.fence.Running(), n.fence.Running()
	j.condition = Change{channelKey(id), c.stored}
	j.fenced[0] = Change{j.condition.Key, v}
	if is && !was {
		j.fenced[1] = Change{schema.Key(schema.Lease, uint64(id)), []byte{}}
	} else if was && !is {
		j.fenced[1] = Change{schema.Key(schema.Lease, uint64(id)), nil}
	}
	if e := step.Event; e.Kind != 0 {
		if e.By != 0 && n.account != 0 {
			e.By = n.account
		}
		j.Entries = append(j.Entries, &pb.Entry{
			Kind: uint32(e.Kind), Channel: uint64(id), Gen: uint64(e.Gen), WhenUs: schema.Micros(l.cfg.Clock()), Peer: n.peer,
			Progress: e.Progress, UntilUs: schema.Micros(e.Until), Report: j.report, By: e.By, Wrong: uint64(n.claim.Wrong), Fault: channel.PlainText(j.fault, maxFault),
		})
	}
	err = l.Commit(j)
	if errors.Is(err, ErrConflict) { // another process has the channel: what is in memory is old
		*c = channelState{}
		return fmt.Errorf("%w: channel %d: %w: send it again", ErrStorage, id, err)
	}
	if err != nil {
		return err
	}
	*c = n
	l.watch(id, c)
	return nil
}

// Deposit leaves a task's body to be claimed, before the task is offered. It may be repeated. A generation that the archive has seen
// already is answered by a FencedError.
func (l *Ledger) Deposit(ctx context.Context, signed channel.Signed, body []byte) error {
	return repeated(ctx, l, func() error { return l.leave(signed, body) })
}

func (l *Ledger) leave(signed channel.Signed, body []byte) error {
	h, err := l.cfg.genuine(signed, body)
	if err != nil {
		return err
	}
	c, err := l.lock(h.Channel)
	if err != nil {
		return err
	}
	defer l.unlock(h.Channel, c)
	n := c.Value
	step := n.fence.Deposit(h.Gen)
	if step.Reply.Status == lease.Fenced {
		if d, err := l.deposit(h.Channel, h.Gen); err == nil && d.ok && bytes.Equal(d.raw, signed.Raw) && h.Gen > c.Value.fence.Gen {
			return nil
		}
		return &FencedError{Channel: h.Channel, Gen: h.Gen, Highest: step.Reply.Highest}
	}
	v, err := schema.Encode(&pb.Deposit{Signed: signed.Marshal(), Body: body})
	if err != nil {
		return err
	}
	return l.take(h.Channel, &c.Value, n, step, &Job{Grows: true, Changes: Fixed([]Change{{depositKey(h.Channel, h.Gen), v}})})
}

// Claim binds a task to the first peer that asks for it, and brings its body and the state from which to go on.
func (l *Ledger) Claim(ctx context.Context, peer string, signed channel.Signed) (uplink.Claimed, error) {
	return sure(ctx, l, claimDenied, func() (uplink.Claimed, error) { return claimOf(l, peer, signed) })
}

func claimOf(l *Ledger, peer string, signed channel.Signed) (uplink.Claimed, error) {
	var q claiming
	t, c, err := l.shown(signed, func(s Snapshot, t *task, c *channelState) error { return q.decide(l, s, peer, t, c) })
	if err != nil {
		return uplink.Claimed{}, fmt.Errorf("claim: %w", err)
	}
	defer l.unlock(t.Channel, c)
	if t.unknown(&c.Value) {
		return uplink.Claimed{Reply: unclaimed(&c.Value)}, nil
	}
	n := c.Value
	n.fence = q.fence
	j := &Job{Grows: true}
	if q.made() {
		n.peer, n.host, n.latest, n.task, n.claim = peer, t.Host, t.Latest, nil, n.claim.next(q.now, n.tally.pages > 0)
		n.tally.claimed(q.now)
		noted, err := l.setHolder(&n, peer, q.now)
		if err != nil {
			return uplink.Claimed{}, fmt.Errorf("claim: %w", err)
		}
		if q.over = append(q.over, noted...); len(q.over) > 0 {
			j.Changes = Fixed(q.over)
		}
	}
	if err := l.take(t.Channel, &c.Value, n, q.step, j); err != nil {
		return uplink.Claimed{}, err
	}
	if q.made() && (l.cfg.Clock().After(t.claimable().Add(l.cfg.Terms.Slack/2)) || banned(l, peer)) {
		return overtaken(l, t, c, peer)
	}
	out := uplink.Claimed{Reply: t.notLate(q.now, q.step.Reply)}
	if q.granted() {
		out.Body, out.Resume = t.body, q.resume
	}
	return out, nil
}

// banned reports whether an operator refuses a peer. Evict, which follows such a word, does not see a claim that is not durable yet.
func banned(l *Ledger, peer string) bool {
	if l.cfg.Banned == nil {
		return false
	}
	names := l.cfg.Banned()
	return len(names) > 0 && (slices.Contains(names, peer) || slices.Contains(names, l.accountOf(peer)))
}

// overtaken gives a claim back that became durable so long after its latest start that the manager may have ended its wait, and have sent somebody else to the host, or
// while an operator has banned the peer. Who is not to blame is told that it is late.
func overtaken(l *Ledger, t *task, c *keylock.Held[channelState], peer string) (uplink.Claimed, error) {
	now := nowFor(l, &c.Value)
	n := c.Value
	step := n.fence.Release(now, lease.PeerOf(peer), t.Gen)
	step.Event.By = 0
	if err := l.take(t.Channel, &c.Value, n, step, &Job{}); err != nil {
		return uplink.Claimed{}, err
	}
	step.Reply.Status = lease.Late
	return uplink.Claimed{Reply: t.notLate(now, step.Reply)}, nil
}

// claiming is a claim while it is answered.
type claiming struct {
	now    time.Time
	fence  lease.Fence // after the claim
	step   lease.Step
	over   []Change       // what it leaves behind
	resume channel.Resume // from where the crawl goes on, if it is granted
}

// decide asks the fence, and reads what its answer needs.
func (q *claiming) decide(l *Ledger, s Snapshot, peer string, t *task, c *channelState) (err error) {
	if t.unknown(c) {
		return nil
	}
	q.now = nowFor(l, c)
	q.fence = c.fence
	q.step = q.fence.Claim(q.now, lease.PeerOf(peer), t.Gen, t.claimable(), l.cfg.Terms)
	if q.made() {
		if q.over, err = over(s, t.Channel, t.Gen, q.fence.Seq > 0); err != nil {
			return err
		}
	}
	switch {
	case !q.granted():
	case t.aside:
		q.resume, err = nearlyDone(s, t, q.step.Reply)
	default:
		q.resume, err = resume(s, t.Channel, c.crawl, q.step.Reply)
	}
	return err
}

// made tells whether the claim was made now, and not repeated.
func (q *claiming) made() bool { return q.step.Event.Kind == lease.Claimed }

func (q *claiming) granted() bool { return q.step.Reply.Status == lease.Granted }

// unclaimed answers for a generation that was never deposited here.
func unclaimed(c *channelState) lease.Reply {
	return lease.Reply{Status: lease.Unclaimed, Seq: c.fence.Seq, Head: c.fence.Head}
}

// over deletes what a claim of a generation leaves behind: deposits of lower ones, which can never be claimed, and, if chunks were ever stored, what earlier claims
// of the channel have delivered.
func over(s Snapshot, id channel.ID, gen channel.Gen, stored bool) (out []Change, err error) {
	err = s.Scan(schema.Key(schema.Deposit, uint64(id)), nil, false, func(key, _ []byte) (bool, error) {
		if channel.Gen(schema.Number(key, 1)) < gen {
			out = append(out, Change{bytes.Clone(key), nil})
		}
		return true, nil
	})
	if err != nil || !stored {
		return out, err
	}
	taken, err := takenIn(s, id, gen)
	return append(out, taken...), err
}

// takenIn deletes what earlier claims of a channel have delivered, but for the last one: the manager has heard that it has ended, or the channel would not be
// claimed again, but may still be at it.
func takenIn(s Snapshot, id channel.ID, gen channel.Gen) (out []Change, err error) {
	last, kept := channel.Gen(0), 0 // where those of the last claim begin
	err = s.Scan(schema.Key(schema.Delivered, uint64(id)), nil, false, func(key, _ []byte) (bool, error) {
		g := channel.Gen(schema.Number(key, 1))
		if g >= gen {
			return false, nil
		}
		if g != last {
			last, kept = g, len(out)
		}
		out = append(out, Change{bytes.Clone(key), nil})
		return len(out) < maxClear, nil
	})
	return out[:kept], err
}

// Renew answers what a task has left; it lengthens the wait for an unclaimed one up to its latest start, and nothing else.
func (l *Ledger) Renew(ctx context.Context, peer string, signed channel.Signed) (lease.Reply, error) {
	return sure(ctx, l, denied, func() (lease.Reply, error) { return renewOf(l, peer, signed) })
}

func renewOf(l *Ledger, peer string, signed channel.Signed) (lease.Reply, error) {
	t, c, err := l.shown(signed, nil)
	if err != nil {
		return lease.Reply{}, fmt.Errorf("renew: %w", err)
	}
	defer l.unlock(t.Channel, c)
	if t.unknown(&c.Value) {
		return unclaimed(&c.Value), nil
	}
	now, until := nowFor(l, &c.Value), t.claimable()
	n := c.Value
	latest := t.Latest
	if now.After(until) {
		latest = until
	}
	step := n.fence.Renew(now, lease.PeerOf(peer), t.Gen, latest, l.cfg.Terms)
	if e := &step.Event; e.Kind == lease.Queued && e.Until.After(until) {
		e.Until = until
	}
	return t.notLate(now, step.Reply), l.take(t.Channel, &c.Value, n, step, &Job{})
}

// Release gives a claimed task back, so that another peer may go on at once.
func (l *Ledger) Release(ctx context.Context, peer string, id channel.ID, gen channel.Gen) (lease.Reply, error) {
	return sure(ctx, l, denied, func() (lease.Reply, error) { return releaseOf(l, peer, id, gen) })
}

func releaseOf(l *Ledger, peer string, id channel.ID, gen channel.Gen) (lease.Reply, error) {
	t, c, err := lockTask(l, id, gen)
	if err != nil {
		return lease.Reply{}, err
	}
	defer l.unlock(t.Channel, c)
	now := nowFor(l, &c.Value)
	n := c.Value
	step := n.fence.Release(now, lease.PeerOf(peer), t.Gen)
	return t.reply(step.Reply), l.take(t.Channel, &c.Value, n, step, &Job{})
}

// Evict releases all that some members have claimed, as if they had given it back, and tells how much that was. Nothing that they still send for
// it is stored. As they may fetch on until they hear of it, nobody else may claim it, nor anything of its host, before their leases would have ended. A name is a peer's or an account's, by which all its peers are meant that have claimed, connected or not.
func (l *Ledger) Evict(ctx context.Context, names []string) (released int, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	gone := evicted{map[lease.Peer]bool{}, map[uint64]bool{}}
	for _, n := range names {
		gone.peers[lease.PeerOf(n)], gone.numbers[l.DelivererNumber(n)] = true, true
	}
	var mu sync.Mutex // of released, failed and cut
	var failed []error
	cut := false
	var wg sync.WaitGroup
	ids := make(chan channel.ID)
	for range evictors {
		wg.Go(func() {
			for id := range ids {
				was := false
				err := settled(ctx, l, id, func(c *channelState) (err error) {
					was, err = l.evict(id, c, gone)
					return err
				})
				mu.Lock()
				switch {
				case err != nil && ctx.Err() != nil:
					cut = true
				case err != nil:
					failed = append(failed, err)
				case was:
					released++
				}
				mu.Unlock()
			}
		})
	}
	for _, id := range l.deadlines.channels() {
		ids <- id
	}
	close(ids)
	wg.Wait()
	if cut {
		failed = append(failed, ctx.Err())
	}
	return released, errors.Join(failed...)
}

// evictors is how many channels Evict looks at at a time: it may have to wait for each, until a chunk is stored.
const evictors = 32

// evicted are members whose claims end.
type evicted struct {
	peers   map[lease.Peer]bool
	numbers map[uint64]bool // of peers and accounts
}

func (l *Ledger) evict(id channel.ID, c *channelState, gone evicted) (bool, error) {
	now := nowFor(l, c)
	n := *c
	if !n.fence.Running() || !gone.peers[n.fence.Peer] && !gone.numbers[n.deliverer] && !gone.numbers[n.account] {
		return false, nil
	}
	step := n.fence.Evict(now)
	return true, l.take(id, c, n, step, &Job{})
}

// Recall ends all tasks of a channel, claimed or not: what its peers still send is refused, as that of an older generation is. What they stored
// stays, and the next one goes on from it.
func (l *Ledger) Recall(ctx context.Context, id channel.ID) error {
	return settled(ctx, l, id, func(c *channelState) error {
		now := nowFor(l, c)
		n := *c
		step := n.fence.Revoke(now)
		return l.take(id, c, n, step, &Job{})
	})
}

// settled does something to a channel, which it holds meanwhile, until no other program was quicker.
func settled(ctx context.Context, l *Ledger, id channel.ID, do func(c *channelState) error) error {
	return repeated(ctx, l, func() error {
		c, err := l.lock(id)
		if err != nil {
			return err
		}
		defer l.unlock(id, c)
		return do(&c.Value)
	})
}

// repeated does something until no other program was quicker. Before it is done again, all that others have stored is known here.
func repeated(ctx context.Context, l *Ledger, do func() error) error {
	return Revised(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := do()
		if errors.Is(err, ErrConflict) {
			if serr := l.Others.sync(ctx); serr != nil {
				return fmt.Errorf("%w: %w", ErrStorage, serr)
			}
		}
		return err
	})
}

// TakeBack ends a task of which it is not known whether a peer took it, unless it was claimed. What a peer claims of it later is refused.
func (l *Ledger) TakeBack(ctx context.Context, id channel.ID, gen channel.Gen) error {
	return endUnclaimed(ctx, l, id, func(now time.Time, f *lease.Fence) lease.Step { return f.TakeBack(now, gen) })
}

// Lost ends a task that was never deposited, which a manager that was killed meant to hand out. Of one that was deposited nothing changes.
func Lost(ctx context.Context, l *Ledger, id channel.ID, gen channel.Gen) error {
	return endUnclaimed(ctx, l, id, func(now time.Time, f *lease.Fence) lease.Step { return f.Lost(now, gen) })
}

// Over says again that a task has ended which a manager takes for one that runs. Of one that runs nothing changes.
func Over(ctx context.Context, l *Ledger, id channel.ID, gen channel.Gen) error {
	return endUnclaimed(ctx, l, id, func(now time.Time, f *lease.Fence) lease.Step { return f.Over(now, gen) })
}

func endUnclaimed(ctx context.Context, l *Ledger, id channel.ID, end func(time.Time, *lease.Fence) lease.Step) error {
	return settled(ctx, l, id, func(c *channelState) error {
		now := nowFor(l, c)
		n := *c
		if step := end(now, &n.fence); step.Persist {
			return l.take(id, c, n, step, &Job{})
		}
		return nil
	})
}

// Forget ends all tasks of a channel, claimed or not, and drops what is kept of it beside its fence: what its peers still send is refused, as
// that of an older generation is, and no later crawl goes on from it.
func (l *Ledger) Forget(ctx context.Context, id channel.ID) error {
	return settled(ctx, l, id, func(c *channelState) error { return forget(ctx, l, id, c) })
}

func forget(ctx context.Context, l *Ledger, id channel.ID, c *channelState) error {
	now := nowFor(l, c)
	n := *c
	step := n.fence.Revoke(now)
	n.peer, n.host, n.task, n.claim, n.deliverer, n.account = "", "", nil, claim{}, 0, 0
	if err := l.take(id, c, n, step, &Job{}); err != nil {
		return err
	}
	b := l.Batch()
	err := l.store.View(func(s Snapshot) error {
		m := new(pb.Page)
		for _, table := range append([]byte{schema.Deposit, schema.Resume, schema.Inter, schema.Delivered}, schema.OfPage...) {
			err := s.Scan(schema.Key(table, uint64(id)), nil, table == schema.Page, func(key, value []byte) (bool, error) {
				if table == schema.Page {
					m.Reset()
					if err := schema.Decode(value, m); err != nil {
						return false, err
					}
					b.Add(Change{schema.Key(schema.Owner, channel.URLHash(m.Url)), nil})
				}
				return true, errors.Join(b.Delete(bytes.Clone(key)), ctx.Err())
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget channel %d: %w", id, err)
	}
	return b.Flush()
}
