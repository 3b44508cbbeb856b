package overlay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/channel"
	"shoal/coords"
)

// Node is one member of the overlay. It is owned by whoever runs it.
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
	gossip  time.Time // next one
	told    time.Time // last one
	begun   int       // gossips so far
	events  []Event
	counts  map[string]int64
	gossips int64 // of counts, as are answers, the two that are counted all the time
	answers int64
	doubts  map[ID]doubt // of peers that took tasks and did nothing with them
}

// request is a message that awaits its answer.
type request struct {
	to    ID
	until time.Time
	place uint64 // the placing that it belongs to; 0: gossip
	offer bool
	find  bool          // a question of a lookup
	probe bool          // of a host
	aside bool          // a question of a lookup that does not wait for its answer
	late  bool          // nobody waits for it any more
	wants time.Duration // predicted, until it is answered; of questions and measurements only
	sent  time.Time     // when it went out; zero: at once
	round bool          // it does not go straight to its receiver, or not yet
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
	n := &Node{cfg: cfg, rng: rng, vivaldi: v, coord: v.Coord(), queue: queue, pending: map[uint64]*request{}, places: map[uint64]*placing{},
		gossip: now, counts: map[string]int64{}, doubts: map[ID]doubt{}, pace: newPace(), seq: uint64(now.UnixMilli())}
	all := 0
	if cfg.Places {
		all = MaxKnown
	}
	n.table = newTable(&n.coord, cfg.Expiry, all)
	return n, nil
}

// Coord is where the node is.
func (n *Node) Coord() coords.Coord { return n.coord }

// Self is the record that the node tells others, with a new sequence number.
func (n *Node) Self(now time.Time) PeerRecord {
	n.seq++
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

// Meet puts somebody into the table: a bootstrap peer, an address kept from an earlier run.
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

// turns says whether the node, at rest, speaks the less often the more often it is asked. Chance, and where it is, have some asked twice as often as
// others, and none is to cost its volunteer much more than the others cost theirs. What it would have learnt it hears from whoever asks; only round-trip
// times are measured by who speaks of its own accord, which it does once in longestSilence of Every at least.
func (n *Node) turns() bool { return !n.cfg.Places && n.haste() == 1 }

// An answer puts the next gossip off by spokenPart of Every, where half of it lies between two: so that chance leaves few with much more than two messages in Every.
const (
	longestSilence = 8
	spokenPart     = 60 // per cent
)

// spoke puts the node's next gossip off, since it has just said the same to somebody.
func (n *Node) spoke() {
	if !n.turns() || n.told.IsZero() {
		return
	}
	n.gossip = n.gossip.Add(n.cfg.Every * spokenPart / 100)
	if last := n.told.Add(longestSilence * n.cfg.Every); n.gossip.After(last) {
		n.gossip = last
	}
}

// haste is how many times as often as at rest the node gossips now: while its table and its coordinate are young, and the more the more
// members it knows. Where there are few, there is little to learn, and soon nothing.
func (n *Node) haste() int {
	known := len(n.table.entries)
	if n.begun < n.cfg.Young/2 {
		return n.cfg.Young // to find out who is there
	}
	if n.begun < 2*n.cfg.Young || !n.vivaldi.Settled() && n.begun < min(youngest, samplesEach*known) {
		return min(max(known, 1), n.cfg.Young)
	}
	return 1
}

// samplesEach is how many gossips for each known member are made in haste at most.
const samplesEach = 5

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

// Failed says that a request could not be delivered, so that nothing needs to wait for its time-out. sure: it never reached its receiver.
func (n *Node) Failed(now time.Time, req uint64, sure bool) []Send {
	r, ok := n.pending[req]
	if !ok {
		return nil
	}
	delete(n.pending, req)
	if sure && r.offer {
		r.offer = false // nobody has it
	}
	return n.lost(now, r)
}

// lost handles a request that stays without an answer.
func (n *Node) lost(now time.Time, r *request) []Send {
	n.counts["unanswered"]++
	if n.table.fail(r.to) {
		n.vivaldi.Forget(string(r.to))
	}
	if p, ok := n.places[r.place]; ok {
		return n.unanswered(now, p, r)
	}
	return nil
}

// ask sends a request that will be answered, or counted as lost.
func (n *Node) ask(now time.Time, to PeerRecord, place uint64, offer bool, m func(req uint64) Msg) Send {
	n.req++
	n.pending[n.req] = &request{to: to.ID, until: now.Add(n.cfg.Timeout), place: place, offer: offer}
	n.order = append(n.order, n.req)
	return Send{To: to.ID, Addrs: to.Addrs, Msg: m(n.req)}
}

// take ends a request that is answered; nil: it is not from who was asked, or too late.
func (n *Node) take(now time.Time, from ID, req uint64) *request {
	r, ok := n.pending[req]
	if !ok || r.to != from {
		n.counts["refused: answer to nothing"]++
		return nil
	}
	delete(n.pending, req)
	n.pace.learn(r, now.Sub(r.began(n.cfg.Timeout)))
	return r
}

// tell gossips with one entry of the table.
func (n *Node) tell(now time.Time) []Send {
	var to *PeerRecord
	if n.rng.IntN(2) == 0 { // coordinates need both: short ways to tell neighbours apart, long ones to place the neighbourhood
		to = n.table.anyone(n.rng)
	} else {
		to = n.table.neighbour(n.rng)
	}
	if to == nil {
		return nil
	}
	n.gossips++
	most := MaxGossip
	if n.begun >= 2*n.cfg.Young && n.haste() > 1 { // it knows who is there, and wants to know where it is itself
		most = briefGossip
	}
	return []Send{n.ask(now, *to, 0, false, func(req uint64) Msg {
		return Gossip{Req: req, Self: n.Self(now), Records: n.news(&to.Coord, to, most)}
	})}
}

// briefGossip is how many records a gossip carries that is made for its round-trip time. It is answered by as many. More cost more, and leave coordinates no better.
const briefGossip = 1

// news are up to so many records told to a member that is at a place: the nearest to it and some at random. Its own in the table, if there is one, is itself.
func (n *Node) news(at *coords.Coord, itself *PeerRecord, most int) []*PeerRecord {
	out := make([]*PeerRecord, 0, most) // of the table, which has nobody twice
	add := func(r *PeerRecord) {
		if len(out) < most && r != itself && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	for _, f := range n.table.nearest(at, most/2+1) {
		add(n.table.entries[f.i].rec)
	}
	// Some may be drawn twice, or be among the nearest: that is made up for by drawing more, and whoever knows few tells few.
	for range min(3*most, 2*len(n.table.entries)) {
		if len(out) == most {
			break
		}
		i, j := n.rng.IntN(len(n.table.entries)), n.rng.IntN(len(n.table.entries))
		add(n.table.entries[i+j-n.table.older(i, j)].rec) // the younger one
	}
	return out
}

func (n *Node) onGossip(now time.Time, from ID, m Gossip) []Send {
	if m.Self.ID != from || len(m.Records) > MaxGossip {
		return n.refuse("gossip that is not the sender's")
	}
	if err := m.Self.Check(); err != nil {
		return n.refuse("malformed record")
	}
	self := m.Self
	n.table.hear(now, &self)
	var hashes [MaxGossip]uint32
	for i, r := range m.Records { // all at once, since each record is somewhere else: their ways from memory overlap
		hashes[i] = hashOf(r.ID)
	}
	for i, r := range m.Records {
		if r.ID == n.cfg.ID {
			continue
		}
		if err := r.Check(); err != nil {
			n.counts["refused: malformed record"]++
			continue
		}
		n.table.hearHashed(now, r, hashes[i])
	}
	n.table.trim(n.rng)
	if m.Answer {
		r := n.take(now, from, m.Req)
		if r != nil && r.place != 0 { // the answer to another question
			return n.lost(now, r)
		}
		if r != nil {
			n.table.answered(now, from)
		}
		return nil
	}
	n.answers++
	n.spoke()
	most := MaxGossip
	if told := len(m.Records); told > 0 && told <= briefGossip {
		most = briefGossip
	}
	records := n.news(&self.Coord, n.table.recordOf(from), most)
	return []Send{{To: from, Addrs: m.Self.Addrs, Msg: Gossip{Req: m.Req, Answer: true, Self: n.Self(now), Records: records}}}
}

// onFindNear answers with its own record too, which is fresher than what others tell of it.
func (n *Node) onFindNear(now time.Time, from ID, m FindNear) []Send {
	if m.N < 1 || m.N > MaxNear || !m.At.Valid() {
		return n.refuse("malformed lookup")
	}
	n.counts["find near"]++
	var recs []*PeerRecord
	for _, f := range n.table.nearest(&m.At, m.N+1) {
		if r := n.table.entries[f.i].rec; r.ID != from && len(recs) < m.N {
			recs = append(recs, r)
		}
	}
	self := n.Self(now)
	recs = append(recs[:min(len(recs), MaxNear-1)], &self)
	return []Send{{To: from, Msg: Near{Req: m.Req, Records: recs}}}
}

func (n *Node) onOffer(now time.Time, from ID, m Offer) []Send {
	n.counts["offer"]++
	start, ok := n.accept(now, m.Signed, m.Header)
	return []Send{{To: from, Msg: Answer{Req: m.Req, Accept: ok, Start: start}}}
}

func (n *Node) accept(now time.Time, s channel.Signed, h channel.Header) (time.Time, bool) {
	if n.queue == nil || n.cfg.Places {
		n.counts["refused: takes no tasks"]++
		return now.Add(MaxBacklog), false
	}
	start, ok := n.queue.Quote(now, h)
	if !ok {
		n.counts["busy"]++
		return start, false
	}
	if err := n.queue.Take(now, s, h); err != nil {
		n.counts["busy"]++
		return start, false
	}
	n.counts["taken"]++
	return start, true
}

func (n *Node) onHandoff(now time.Time, from ID, m Handoff) []Send {
	if len(m.Tasks) > MaxHandoff {
		return n.refuse("handoff of too many tasks")
	}
	taken := make([]bool, len(m.Tasks))
	for i, t := range m.Tasks {
		_, taken[i] = n.accept(now, t.Signed, t.Header)
	}
	return []Send{{To: from, Msg: HandoffAnswer{Req: m.Req, Taken: taken}}}
}

// Greet gossips with somebody of whom only the address is known.
func (n *Node) Greet(now time.Time, id ID, addrs []string) []Send {
	if id == n.cfg.ID {
		return nil
	}
	n.counts["greeting"]++
	n.spoke()
	to, itself := PeerRecord{ID: id, Addrs: addrs, Coord: n.coord}, n.table.recordOf(id)
	return []Send{n.ask(now, to, 0, false, func(req uint64) Msg {
		return Gossip{Req: req, Self: n.Self(now), Records: n.news(&to.Coord, itself, MaxGossip)}
	})}
}
