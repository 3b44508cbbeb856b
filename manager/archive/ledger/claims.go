package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/wire/uplink"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
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
	also := j.Changes
	was, is := c.fence.Running(), n.fence.Running()
	j.condition = Change{channelKey(id), c.stored}
	j.Changes = func(at []segment.Location) ([]Change, error) {
		out := []Change{{channelKey(id), v}}
		if is && !was {
			out = append(out, Change{schema.Key(schema.Lease, uint64(id)), []byte{}})
		} else if was && !is {
			out = append(out, Change{schema.Key(schema.Lease, uint64(id)), nil})
		}
		if also == nil {
			return out, nil
		}
		more, err := also(at)
		return append(out, more...), err
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
	return l.leave(signed, body)
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
		if d, err := l.deposit(h.Channel, h.Gen); err == nil && bytes.Equal(d.raw, signed.Raw) && h.Gen > c.Value.fence.Gen {
			return nil
		}
		return &FencedError{Channel: h.Channel, Gen: h.Gen, Highest: step.Reply.Highest}
	}
	v, err := schema.Encode(&pb.Deposit{Signed: signed.Marshal(), Body: body})
	if err != nil {
		return err
	}
	return l.take(h.Channel, &c.Value, n, step, &Job{Grows: true, Changes: func([]segment.Location) ([]Change, error) {
		return []Change{{depositKey(h.Channel, h.Gen), v}}, nil
	}})
}

// genuine looks whether a task is the manager's, and whether that is its body.
func (c *Config) genuine(signed channel.Signed, body []byte) (channel.Header, error) {
	h, err := c.Verify(c.Clock(), signed)
	if err != nil {
		return h, fmt.Errorf("deposit: %w", err)
	}
	if len(body) > channel.MaxBody || len(body) != h.BodyBytes || sha256.Sum256(body) != h.BodySHA256 {
		return h, fmt.Errorf("%w: channel %d, generation %d: body of %d bytes is not the one of the header", ErrBadTask, h.Channel, h.Gen, len(body))
	}
	return h, nil
}

func depositKey(id channel.ID, gen channel.Gen) []byte {
	return schema.Key2(schema.Deposit, uint64(id), uint64(gen))
}

// deposit is a task as the manager left it.
type deposit struct {
	raw   []byte // header, as it was signed
	body  []byte
	aside bool // its pages are evidence
	rest  []channel.Frontier
	lane  Lane // if set, it was deposited aside there, and nothing else is
}

// errNoDeposit says that there is no such task.
var errNoDeposit = errors.New("archive: task was not deposited")

// deposit reads what was deposited for a generation.
func (l *Ledger) deposit(id channel.ID, gen channel.Gen) (d deposit, err error) {
	var m pb.Deposit
	err = l.store.View(func(s Snapshot) error {
		ok, err := Get(s, depositKey(id, gen), &m)
		if err == nil && !ok {
			err = errNoDeposit
		}
		return err
	})
	if err != nil {
		return d, err
	}
	if m.Lane != 0 {
		return deposit{lane: Lane{channel.ID(m.Lane), channel.Gen(m.LaneGen)}}, nil
	}
	signed, err := channel.ParseSigned(m.Signed)
	if err != nil {
		return d, err
	}
	d = deposit{raw: signed.Raw, body: m.Body, aside: m.Aside}
	if len(m.Rest) > 0 {
		r, err := channel.ParseResume(m.Rest)
		if err != nil {
			return d, err
		}
		d.rest = r.Frontier
	}
	return d, nil
}

// task is a task that a peer shows.
type task struct {
	channel.Header            // of a task that was deposited aside with the lane's channel and generation
	named          channel.ID // by the peer
	namedGen       channel.Gen
	deposit
	ok bool // it was deposited
}

// shown finds the deposit of a task that a peer shows. The manager's signature need not be checked: the header is genuine if the same
// one was deposited.
func (l *Ledger) shown(signed channel.Signed) (t task, err error) {
	if t.Header, err = channel.ParseHeader(signed.Raw); err != nil {
		return t, fmt.Errorf("%w: %w", ErrBadTask, err)
	}
	t.named, t.namedGen = t.Channel, t.Gen
	t.deposit, err = l.deposit(t.Channel, t.Gen)
	if lane := t.lane; lane != (Lane{}) {
		t.Channel, t.Gen = lane.Channel, lane.Gen
		t.deposit, err = l.deposit(t.Channel, t.Gen)
	}
	switch {
	case errors.Is(err, errNoDeposit):
		return t, nil
	case err != nil:
		return t, fmt.Errorf("%w: %w", ErrStorage, err)
	case !bytes.Equal(t.raw, signed.Raw):
		return t, fmt.Errorf("%w: channel %d, generation %d: not the header that was deposited", ErrBadTask, t.named, t.namedGen)
	}
	t.ok = true
	return t, nil
}

// reply is an answer as the peer must see it, who knows nothing of lanes.
func (t *task) reply(r lease.Reply) lease.Reply {
	if t.named != t.Channel && r.Highest != 0 {
		r.Highest = t.namedGen
	}
	return r
}

// Claim binds a task to the first peer that asks for it, and brings its body and the state from which to go on.
func (l *Ledger) Claim(ctx context.Context, peer string, signed channel.Signed) (uplink.Claimed, error) {
	return sure(ctx, l, claimDenied, func() (uplink.Claimed, error) { return claimOf(l, peer, signed) })
}

func claimOf(l *Ledger, peer string, signed channel.Signed) (uplink.Claimed, error) {
	h, err := l.shown(signed)
	if err != nil {
		return uplink.Claimed{}, fmt.Errorf("claim: %w", err)
	}
	c, err := l.lock(h.Channel)
	if err != nil {
		return uplink.Claimed{}, err
	}
	defer l.unlock(h.Channel, c)
	now := l.cfg.Clock()
	if !h.ok && h.Gen > c.Value.fence.Gen {
		return uplink.Claimed{Reply: unclaimed(&c.Value)}, nil
	}
	n := c.Value
	step := n.fence.Claim(now, lease.PeerOf(peer), h.Gen, h.Latest, l.cfg.Terms)
	j := &Job{Grows: true}
	if step.Event.Kind == lease.Claimed { // not a claim that is repeated
		n.peer, n.host, n.latest, n.task, n.claim = peer, h.Host, h.Latest, nil, n.claim.next(now, n.tally.pages > 0)
		n.tally.claimed(now)
		old, err := l.over(h.Channel, h.Gen, n.fence.Seq > 0)
		if err != nil {
			return uplink.Claimed{}, fmt.Errorf("claim: %w", err)
		}
		noted, err := l.setHolder(&n, peer, now)
		if err != nil {
			return uplink.Claimed{}, fmt.Errorf("claim: %w", err)
		}
		old = append(old, noted...)
		j.Changes = func([]segment.Location) ([]Change, error) { return old, nil }
	}
	if err := l.take(h.Channel, &c.Value, n, step, j); err != nil {
		return uplink.Claimed{}, err
	}
	out := uplink.Claimed{Reply: h.reply(step.Reply)}
	if step.Reply.Status == lease.Granted {
		out.Body = h.body
		if h.aside {
			out.Resume, err = nearlyDone(l.store, &h, step.Reply)
		} else {
			out.Resume, err = l.resume(h.Channel, c.Value.crawl, step.Reply)
		}
		if err != nil {
			return uplink.Claimed{}, err
		}
	}
	return out, nil
}

// unclaimed answers for a generation that was never deposited here.
func unclaimed(c *channelState) lease.Reply {
	return lease.Reply{Status: lease.Unclaimed, Seq: c.fence.Seq, Head: c.fence.Head}
}

// over deletes what a claim of a generation leaves behind: deposits of lower ones, which can never be claimed, and, if chunks were ever stored, what earlier claims
// of the channel have delivered.
func (l *Ledger) over(id channel.ID, gen channel.Gen, stored bool) (out []Change, err error) {
	err = l.store.View(func(s Snapshot) error {
		err := s.Scan(schema.Key(schema.Deposit, uint64(id)), nil, false, func(key, _ []byte) (bool, error) {
			if channel.Gen(schema.Number(key, 1)) < gen {
				out = append(out, Change{bytes.Clone(key), nil})
			}
			return true, nil
		})
		if err != nil || !stored {
			return err
		}
		taken, err := takenIn(s, id, gen)
		out = append(out, taken...)
		return err
	})
	return out, err
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
	h, err := l.shown(signed)
	if err != nil {
		return lease.Reply{}, fmt.Errorf("renew: %w", err)
	}
	c, err := l.lock(h.Channel)
	if err != nil {
		return lease.Reply{}, err
	}
	defer l.unlock(h.Channel, c)
	if !h.ok && h.Gen > c.Value.fence.Gen {
		return unclaimed(&c.Value), nil
	}
	n := c.Value
	step := n.fence.Renew(l.cfg.Clock(), lease.PeerOf(peer), h.Gen, h.Latest, l.cfg.Terms)
	return h.reply(step.Reply), l.take(h.Channel, &c.Value, n, step, &Job{})
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
	n := c.Value
	step := n.fence.Release(l.cfg.Clock(), lease.PeerOf(peer), t.Gen)
	return t.reply(step.Reply), l.take(t.Channel, &c.Value, n, step, &Job{})
}

// Evict releases all that some members have claimed, as if they had given it back, and tells how much that was. Nothing that they still send for
// it is stored. A name is a peer's or an account's, by which all its peers are meant that have claimed, connected or not.
func (l *Ledger) Evict(ctx context.Context, names []string) (released int, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	gone := evicted{map[lease.Peer]bool{}, map[uint64]bool{}}
	for _, n := range names {
		gone.peers[lease.PeerOf(n)], gone.numbers[l.DelivererNumber(n)] = true, true
	}
	var failed []error
	for _, id := range l.deadlines.channels() {
		if err := ctx.Err(); err != nil {
			return released, errors.Join(append(failed, err)...)
		}
		was, err := sure(ctx, l, func(bool) bool { return false }, func() (bool, error) { return l.evict(id, gone) })
		if err != nil {
			failed = append(failed, err)
		} else if was {
			released++
		}
	}
	return released, errors.Join(failed...)
}

// evicted are members whose claims end.
type evicted struct {
	peers   map[lease.Peer]bool
	numbers map[uint64]bool // of peers and accounts
}

func (l *Ledger) evict(id channel.ID, gone evicted) (bool, error) {
	c, err := l.lock(id)
	if err != nil {
		return false, err
	}
	defer l.unlock(id, c)
	n := c.Value
	if !n.fence.Running() || !gone.peers[n.fence.Peer] && !gone.numbers[n.deliverer] && !gone.numbers[n.account] {
		return false, nil
	}
	step := n.fence.Release(l.cfg.Clock(), n.fence.Peer, n.fence.Gen)
	return true, l.take(id, &c.Value, n, step, &Job{})
}

// Recall ends all tasks of a channel, claimed or not: what its peers still send is refused, as that of an older generation is. What they stored
// stays, and the next one goes on from it.
func (l *Ledger) Recall(ctx context.Context, id channel.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := l.lock(id)
	if err != nil {
		return err
	}
	defer l.unlock(id, c)
	n := c.Value
	step := n.fence.Revoke()
	return l.take(id, &c.Value, n, step, &Job{})
}

// TakeBack ends a task of which it is not known whether a peer took it, unless it was claimed. What a peer claims of it later is refused.
func (l *Ledger) TakeBack(ctx context.Context, id channel.ID, gen channel.Gen) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := l.lock(id)
	if err != nil {
		return err
	}
	defer l.unlock(id, c)
	n := c.Value
	if step := n.fence.TakeBack(gen); step.Persist {
		return l.take(id, &c.Value, n, step, &Job{})
	}
	return nil
}

// Forget ends all tasks of a channel, claimed or not, and drops what is kept of it beside its fence: what its peers still send is refused, as
// that of an older generation is, and no later crawl goes on from it.
func (l *Ledger) Forget(ctx context.Context, id channel.ID) error {
	c, err := l.lock(id)
	if err != nil {
		return err
	}
	defer l.unlock(id, c)
	n := c.Value
	step := n.fence.Revoke()
	n.peer, n.host, n.task, n.claim, n.deliverer, n.account = "", "", nil, claim{}, 0, 0
	if err := l.take(id, &c.Value, n, step, &Job{}); err != nil {
		return err
	}
	b := l.Batch()
	err = l.store.View(func(s Snapshot) error {
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
