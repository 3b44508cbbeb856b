package overlay

import (
	"fmt"
	"math/rand/v2"
	"time"

	"shoal/coords"
)

// Node is one member of the overlay. Its runner owns it.
type Node struct {
	cfg     Config
	rng     *rand.Rand
	vivaldi *coords.Node
	coord   coords.Coord
	queue   Queue // nil: takes no tasks
	table   table
	seq     uint64
	req     uint64

	pending map[uint64]*request // requests that await an answer
	order   []uint64            // of pending, oldest first
	waits   []wait              // ends of patience, soonest first
	pace    pace
	places  map[uint64]*placing
	surveys map[uint64]*survey
	gossip  time.Time // next one
	told    time.Time // last one
	begun   int       // gossips so far
	events  []Event
	counts  map[string]int64
	gossips int64 // of counts, as are answers, the two that are counted all the time
	answers int64
	doubts  map[ID]doubt // of peers that took tasks and did nothing with them
}

// youngest bounds how many gossips a node makes in haste while its coordinate has not settled.
const youngest = 300

// MaxKnown bounds the members that a node with Config.Places keeps.
const MaxKnown = 4096

// New makes a node. queue is nil for a member that takes no tasks.
func New(now time.Time, cfg Config, v *coords.Node, queue Queue, rng *rand.Rand) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, rng: rng, vivaldi: v, coord: v.Coord(), queue: queue, pending: map[uint64]*request{}, places: map[uint64]*placing{}, surveys: map[uint64]*survey{},
		gossip: now, counts: map[string]int64{}, doubts: map[ID]doubt{}, pace: newPace(), seq: cfg.Seq}
	all := 0
	if cfg.Places {
		all = MaxKnown
	}
	n.table = newTable(&n.coord, cfg.Expiry, all)
	return n, nil
}

// Coord is where the node is.
func (n *Node) Coord() coords.Coord { return n.coord }

// Self is the record that the node tells others, with a new sequence number. That follows the clock. Where the one of an earlier run was ahead,
// the others hear this run at once if it was told that run's numbers (Config.Seq), else when the time that the clock showed has come.
func (n *Node) Self(now time.Time) PeerRecord {
	n.seq = max(n.seq+1, uint64(max(now.UnixMilli(), 0)))
	r := PeerRecord{ID: n.cfg.ID, Seq: n.seq, Coord: n.coord, Addrs: n.cfg.Addrs, Issued: now, Seen: now}
	if n.queue != nil && !n.cfg.Places {
		r.Load = n.queue.Load(now)
	}
	return r
}

// SetAddrs changes what others are told.
func (n *Node) SetAddrs(addrs []string) { n.cfg.Addrs = addrs[:min(len(addrs), MaxAddrs)] }

// Known are the members of the table.
func (n *Node) Known() []PeerRecord {
	out := make([]PeerRecord, len(n.table.entries))
	for i, e := range n.table.entries {
		out[i] = e.record()
	}
	return out
}

// Size is how many members the table holds.
func (n *Node) Size() int { return len(n.table.entries) }

// Rings counts the entries of the table by ring.
func (n *Node) Rings() (counts [rings]int) {
	for _, ms := range n.table.away() {
		counts[ringAt(ms)]++
	}
	return counts
}

// Counts are messages and refusals by kind, since the start.
func (n *Node) Counts() map[string]int64 {
	if n.gossips > 0 {
		n.counts["gossip"] = n.gossips
	}
	if n.answers > 0 {
		n.counts["gossip answered"] = n.answers
	}
	return n.counts
}

// Events are what placings came to since the last call.
func (n *Node) Events() []Event {
	e := n.events
	n.events = nil
	return e
}

// Meet puts a member into the table: a bootstrap peer, or an address kept from an earlier run.
func (n *Node) Meet(now time.Time, r PeerRecord) error {
	if err := r.Check(); err != nil {
		return err
	}
	if r.ID != n.cfg.ID {
		n.table.hear(now, &r)
		n.table.trim(n.rng)
	}
	return nil
}

// Located says from which network's address a member was heard; empty: none that is public. What the member's record says of that counts no more then.
func (n *Node) Located(id ID, prefix string) { n.table.locate(id, prefix) }

// Sample takes a measured round-trip time to a member that was at a coordinate.
func (n *Node) Sample(from ID, at coords.Coord, rtt time.Duration) {
	if rtt > 0 && rtt <= coords.MaxRTT {
		n.table.measured(from, rtt)
	}
	c, err := n.vivaldi.Update(string(from), at, rtt)
	if err != nil {
		n.counts["sample refused"]++
		return
	}
	if c.Vec != n.coord.Vec || c.Height != n.coord.Height || c.Adjust != n.coord.Adjust {
		n.table.moved = true
	}
	n.coord = c
}

// Step takes a message and answers with what is to be sent.
func (n *Node) Step(now time.Time, from ID, m Msg) []Send {
	switch m := m.(type) {
	case Gossip:
		return n.onGossip(now, from, m)
	case FindNear:
		return n.onFindNear(now, from, m)
	case Near:
		return n.onNear(now, from, m)
	case Offer:
		return n.onOffer(now, from, m)
	case Answer:
		return n.onAnswer(now, from, m)
	case Probed:
		return n.onProbed(now, from, m)
	case Handoff:
		return n.onHandoff(now, from, m)
	case HandoffAnswer: // which a node never waits for: its runner asks
		if r := n.take(now, from, m.Req); r != nil {
			return n.lost(now, r)
		}
		return nil
	}
	return n.refuse(fmt.Sprintf("unknown message %T", m))
}

func (n *Node) refuse(why string) []Send {
	n.counts["refused: "+why]++
	return nil
}

// Tick does what is due: time-outs, gossip, expiry.
func (n *Node) Tick(now time.Time) []Send {
	var out []Send
	for len(n.order) > 0 {
		r, ok := n.pending[n.order[0]]
		if ok && now.Before(r.until) {
			break
		}
		req := n.order[0]
		n.order = n.order[1:]
		if ok {
			delete(n.pending, req)
			out = append(out, n.lost(now, r)...)
		}
	}
	out = append(out, n.impatient(now)...)
	if !now.Before(n.gossip) {
		n.table.expire(now)
		out = append(out, n.tell(now)...)
		n.begun++
		n.told = now
		every := n.cfg.Every / time.Duration(n.haste())
		if n.turns() {
			every /= 2
		}
		// Spread, so that swarms that start together do not speak together.
		n.gossip = now.Add(every/2 + time.Duration(n.rng.Int64N(int64(every))))
	}
	return out
}

// Deadline is when Tick has work.
func (n *Node) Deadline() time.Time {
	next := n.gossip
	for len(n.order) > 0 {
		if r, ok := n.pending[n.order[0]]; ok {
			if r.until.Before(next) {
				next = r.until
			}
			break
		}
		n.order = n.order[1:] // it was answered
	}
	if at, ok := n.nextWait(); ok && at.Before(next) {
		next = at
	}
	return next
}
