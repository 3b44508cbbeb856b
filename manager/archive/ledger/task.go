package ledger

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/keylock"
	"shoal/manager/archive/schema"
)

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
	ok    bool   // there is one
	raw   []byte // header, as it was signed
	body  []byte
	aside bool // its pages are evidence
	rest  []channel.Frontier
	until time.Time // aside: when it may be claimed; zero: until its latest start
	done  []uint64  // aside: beside what is stored
	lane  Lane      // if set, it was deposited aside there, and nothing else is
}

// deposit reads what was deposited for a generation.
func (l *Ledger) deposit(id channel.ID, gen channel.Gen) (d deposit, err error) {
	err = l.store.View(func(s Snapshot) error {
		d, err = depositIn(s, id, gen)
		return err
	})
	return d, err
}

func depositIn(s Snapshot, id channel.ID, gen channel.Gen) (d deposit, err error) {
	var m pb.Deposit
	if d.ok, err = Get(s, depositKey(id, gen), &m); err != nil || !d.ok {
		return d, err
	}
	if m.Lane != 0 {
		d.lane = Lane{channel.ID(m.Lane), channel.Gen(m.LaneGen)}
		return d, nil
	}
	signed, err := channel.ParseSigned(m.Signed)
	if err != nil {
		return d, err
	}
	d.raw, d.body, d.aside = signed.Raw, m.Body, m.Aside
	if m.UntilUs != 0 {
		d.until = schema.Time(m.UntilUs)
	}
	if len(m.Rest) > 0 {
		r, err := channel.ParseResume(m.Rest)
		if err != nil {
			return d, err
		}
		d.rest, d.done = r.Frontier, r.Done
	}
	return d, nil
}

// task is a task that a peer shows.
type task struct {
	channel.Header            // of a task that was deposited aside with the lane's channel and generation
	named          channel.ID // by the peer
	namedGen       channel.Gen
	deposit
}

// unknown tells whether the task was never deposited here.
func (t *task) unknown(c *channelState) bool { return !t.ok && t.Gen > c.fence.Gen }

// elsewhere tells whether the task was deposited aside, in a lane where it was not looked for yet.
func (t *task) elsewhere() bool { return t.lane != (Lane{}) && t.Channel == t.named }

// reply is an answer as the peer must see it, who knows nothing of lanes.
func (t *task) reply(r lease.Reply) lease.Reply {
	if t.named != t.Channel && r.Highest != 0 {
		r.Highest = t.namedGen
	}
	return r
}

// shown takes the channel of a task that a peer shows, or the lane where it was deposited aside. In one snapshot it reads the deposit, the channel,
// unless that is in memory, and what also reads; nil: nothing more. The manager's signature need not be checked: the header is genuine if the same one was
// deposited.
func (l *Ledger) shown(signed channel.Signed, also func(Snapshot, *task, *channelState) error) (*task, *keylock.Held[channelState], error) {
	h, err := channel.ParseHeader(signed.Raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrBadTask, err)
	}
	t := &task{Header: h, named: h.Channel, namedGen: h.Gen}
	c, err := l.read(t, signed.Raw, also)
	if err == nil && t.elsewhere() {
		l.unlock(t.Channel, c)
		t.Channel, t.Gen = t.lane.Channel, t.lane.Gen
		c, err = l.read(t, signed.Raw, also)
	}
	return t, c, err
}

// read takes the channel where a task is, and reads it. If the deposit of the task that the peer names is in a lane, nothing more is read.
func (l *Ledger) read(t *task, raw []byte, also func(Snapshot, *task, *channelState) error) (*keylock.Held[channelState], error) {
	c := l.hold(t.Channel)
	err := l.store.View(func(s Snapshot) (err error) {
		if t.deposit, err = depositIn(s, t.Channel, t.Gen); err != nil || t.elsewhere() {
			return err
		}
		if t.ok && !bytes.Equal(t.raw, raw) {
			return fmt.Errorf("%w: channel %d, generation %d: not the header that was deposited", ErrBadTask, t.named, t.namedGen)
		}
		if err := c.Value.load(s, t.Channel); err != nil || also == nil {
			return err
		}
		return also(s, t, &c.Value)
	})
	if err == nil {
		return c, nil
	}
	l.unlock(t.Channel, c)
	if !errors.Is(err, ErrBadTask) {
		err = fmt.Errorf("%w: channel %d: %w", ErrStorage, t.Channel, err)
	}
	return nil, err
}
