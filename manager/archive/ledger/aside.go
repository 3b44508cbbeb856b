package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/keylock"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// Lane is where a task that is deposited aside has its claim, lease and chain: a channel number that no channel of the database has or gets, with
// generations of its own. One task is in a lane at a time.
type Lane struct {
	Channel channel.ID
	Gen     channel.Gen
}

// Errand says how a task is deposited aside.
type Errand struct {
	Lane  Lane
	Until time.Time          // when it may be claimed; zero: until its latest start
	Rest  []channel.Frontier // what its peer is told that is left of the crawl: the pages that are wanted
	Done  []uint64           // hashes of URLs that are done beside what is stored, its peer is told; what is of Rest is not
}

// DepositAside is Deposit of a task whose pages do not go into its channel's copy, but into the evidence room: an audit. To the peer that claims it it is a
// task of the channel that its header names, in a generation that no other task of that channel has: the rest of a crawl that another peer has begun, of
// which the pages of rest are left. So it cannot be told from such a crawl. Here it is a task of its lane: claim, lease, chunks and report are the lane's, and
// the feed and the evidence room name the lane. A generation that the archive has seen is answered by a FencedError, which tells the highest.
func (l *Ledger) DepositAside(_ context.Context, signed channel.Signed, body []byte, as Errand) error {
	in := as.Lane
	h, err := l.cfg.genuine(signed, body)
	if err != nil {
		return err
	}
	if h.Channel == in.Channel {
		return fmt.Errorf("%w: channel %d is its own lane", ErrBadTask, h.Channel)
	}
	of, err := fenceOf(l, h.Channel)
	if err != nil {
		return err
	}
	if seen := of; seen.Deposit(h.Gen).Reply.Status == lease.Fenced {
		return &FencedError{Channel: h.Channel, Gen: h.Gen, Highest: max(of.Gen, of.Offered)}
	}
	c, err := l.lock(in.Channel)
	if err != nil {
		return err
	}
	defer l.unlock(in.Channel, c)
	n := c.Value
	step := n.fence.Deposit(in.Gen)
	if step.Reply.Status == lease.Fenced {
		return &FencedError{Channel: in.Channel, Gen: in.Gen, Highest: step.Reply.Highest}
	}
	n.fence.Follow(&of) // the chain seems to go on
	d := &pb.Deposit{Signed: signed.Marshal(), Body: body, Aside: true, Rest: (&channel.Resume{Frontier: as.Rest, Done: as.Done}).Marshal()}
	if !as.Until.IsZero() {
		d.UntilUs = schema.Micros(as.Until)
	}
	v, err := schema.Encode(d)
	if err != nil {
		return err
	}
	to, err := schema.Encode(&pb.Deposit{Lane: uint64(in.Channel), LaneGen: uint64(in.Gen)})
	if err != nil {
		return err
	}
	return l.take(in.Channel, &c.Value, n, step, &Job{Grows: true, Changes: func([]segment.Location) ([]Change, error) {
		return []Change{{depositKey(in.Channel, in.Gen), v}, {depositKey(h.Channel, h.Gen), to}}, nil
	}})
}

// fenceOf is a channel's fence as it is now.
func fenceOf(l *Ledger, id channel.ID) (lease.Fence, error) {
	c, err := l.lock(id)
	if err != nil {
		return lease.Fence{}, err
	}
	defer l.unlock(id, c)
	return c.Value.fence, nil
}

// lockTask takes the channel of a task that a peer names, or the lane where it was deposited aside.
func lockTask(l *Ledger, id channel.ID, gen channel.Gen) (t task, c *keylock.Held[channelState], err error) {
	t = task{Header: channel.Header{Channel: id, Gen: gen}, named: id, namedGen: gen}
	c, err = l.lock(id)
	if err != nil || c.Value.fence.Gen == gen {
		return t, c, err // nearly always
	}
	d, err := l.deposit(id, gen)
	if err != nil || d.lane == (Lane{}) {
		return t, c, nil
	}
	l.unlock(id, c)
	t.Channel, t.Gen = d.lane.Channel, d.lane.Gen
	c, err = l.lock(t.Channel)
	return t, c, err
}

// nearlyDone is from where the peer of a task goes on that was deposited aside: what the task names and all that is stored of its channel is done, but for the
// rest, as far as the task's budget allows. It has read robots.txt, so that its peer reads no sitemap.
func nearlyDone(s Snapshot, t *task, r lease.Reply) (channel.Resume, error) {
	out := channel.Resume{Seq: r.Seq, Head: r.Head, Frontier: t.rest}
	most := max(min(t.Budget-len(t.rest), channel.MaxDone), 1)
	told := map[uint64]bool{}
	for _, u := range hashesOf(t.rest) {
		told[u] = true
	}
	add := func(urls ...uint64) (more bool) {
		for _, u := range urls {
			if len(out.Done) >= most {
				return false
			}
			if !told[u] {
				told[u] = true
				out.Done = append(out.Done, u)
			}
		}
		return true
	}
	add(channel.URLHash(t.Host + "/robots.txt"))
	add(t.done...)
	err := s.Scan(schema.Key(schema.Page, uint64(t.named)), nil, false, func(key, _ []byte) (bool, error) {
		return add(schema.Number(key, 1)), nil
	})
	if err != nil {
		return channel.Resume{}, fmt.Errorf("the rest of channel %d: %w", t.named, err)
	}
	return out, nil
}

// claimable is until when a task may be claimed. One that was deposited aside may say a later start than it is wanted for.
func (t *task) claimable() time.Time {
	if t.aside && !t.until.IsZero() && t.until.Before(t.Latest) {
		return t.until
	}
	return t.Latest
}

// notLate answers for a task that was deposited aside, and is wanted no more before its latest start, as for one that the manager has called back.
func (t *task) notLate(now time.Time, r lease.Reply) lease.Reply {
	if r.Status == lease.Late && !now.After(t.Latest) {
		r.Status, r.Highest = lease.Fenced, t.Gen
	}
	return t.reply(r)
}

func hashesOf(rest []channel.Frontier) (out []uint64) {
	for _, f := range rest {
		out = append(out, channel.URLHash(f.URL))
	}
	return out
}

// wanted leaves of the pages of a chunk those for which a task was deposited aside. Its peer may have fetched others besides, as a crawl does.
func wanted(pages []channel.Page, rest []uint64) []channel.Page {
	return slices.DeleteFunc(pages, func(p channel.Page) bool { return !slices.Contains(rest, channel.URLHash(p.URL)) })
}
