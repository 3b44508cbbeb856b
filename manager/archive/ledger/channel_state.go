package ledger

import (
	"bytes"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/intake"
	"shoal/manager/archive/keylock"
	"shoal/manager/archive/schema"
)

// channelState is one channel in memory: while a call is under way or a lease runs.
type channelState struct {
	loaded             bool
	stored             []byte // as the store has it; nil: it has nothing
	fence              lease.Fence
	peer               string
	host               string
	latest             time.Time
	inter              uint64       // inter-site URLs known
	near               uint64       // pages of this crawl that were told as changed and hardly are
	crawl              uint64       // sequence number from which resume states count
	tally              crawlTally   // what the crawl that runs has brought
	timed              bool         // the deadlines have this one's
	look               clockLook    // the clocks when the fence was last asked; zero: not since it was read
	deliverer, account uint64       // numbers of who holds the claim
	prefix             uint64       // number of the network of its address; 0: not known
	revised            uint64       // see Revision
	claim              claim        // what the claim of the fence's generation has brought
	task               *intake.Task // that is claimed, read when the first chunk comes
	aside              bool         // read with it: its pages are evidence
	rest               []uint64     // and these are wanted
}

func channelKey(id channel.ID) []byte { return schema.Key(schema.Channel, uint64(id)) }

// hold takes a channel as it is in memory.
func (l *Ledger) hold(id channel.ID) *keylock.Held[channelState] {
	c := l.channels.Lock(id)
	l.Others.fresh(id, &c.Value)
	return c
}

// lock takes a channel, read from the store if it is not in memory.
func (l *Ledger) lock(id channel.ID) (*keylock.Held[channelState], error) {
	c := l.hold(id)
	if c.Value.loaded {
		return c, nil
	}
	if err := l.store.View(func(s Snapshot) error { return c.Value.load(s, id) }); err != nil {
		l.channels.Unlock(id, c, false)
		return nil, fmt.Errorf("%w: channel %d: %w", ErrStorage, id, err)
	}
	return c, nil
}

// unlock gives it back; what has a lease stays in memory.
func (l *Ledger) unlock(id channel.ID, c *keylock.Held[channelState]) {
	l.channels.Unlock(id, c, c.Value.fence.Running())
}

// load reads the channel unless it is there already.
func (c *channelState) load(s Snapshot, id channel.ID) error {
	if c.loaded {
		return nil
	}
	var m *pb.Channel
	found, err := s.Get(channelKey(id), func(v []byte) error {
		c.stored, m = bytes.Clone(v), new(pb.Channel)
		return schema.Decode(v, m)
	})
	if err != nil {
		return err
	}
	if found {
		if c.fence, err = lease.ParseFence(m.Fence); err != nil {
			return err
		}
		c.peer, c.host, c.latest, c.inter, c.crawl, c.near = m.Peer, m.Host, schema.Time(m.LatestUs), m.Inter, m.Crawl, m.Near
		c.tally.parse(m.SoFar)
		c.claim.parse(m.Claim)
		c.deliverer, c.account, c.prefix, c.revised = m.Deliverer, m.Account, m.Prefix, m.Revised
	}
	c.loaded = true
	return nil
}

// value is what is stored of the channel.
func (c *channelState) value() ([]byte, error) {
	return schema.Encode(&pb.Channel{
		Fence: c.fence.Append(nil), Peer: c.peer, Host: c.host, LatestUs: schema.Micros(c.latest), Inter: c.inter, Crawl: c.crawl, Near: c.near,
		SoFar: c.tally.stored(), Claim: c.claim.stored(), Deliverer: c.deliverer, Account: c.account, Prefix: c.prefix, Revised: c.revised,
	})
}

// watch has the end of a lease noticed.
func (l *Ledger) watch(id channel.ID, c *channelState) {
	if at := c.fence.Deadline(); !at.IsZero() && !c.timed {
		c.timed = true
		l.deadlines.set(id, at)
	}
}
