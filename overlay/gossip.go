package overlay

import (
	"slices"
	"time"

	"shoal/coords"
)

// turns reports whether the node, at rest, speaks less often the more often it is asked. By chance and by their
// place, some nodes are asked twice as often as others, and no volunteer should pay much more than the others. The
// node hears from those that ask what it would have learnt by speaking. Only round-trip times need a node that speaks
// of its own accord, which it does at least once in longestSilence of Every.
func (n *Node) turns() bool { return !n.cfg.Places && n.haste() == 1 }

// An answer puts the next gossip off by spokenPart of Every, where half of it lies between two: so that chance leaves few with much more than two messages in Every.
const (
	longestSilence = 8
	spokenPart     = 60 // per cent
)

// spoke puts off the node's next gossip, because it has just said the same to another member.
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
	return []Send{n.ask(now, *to, 0, gossiping, func(req uint64) Msg {
		return Gossip{Req: req, Self: n.Self(now), Records: n.news(&to.Coord, to, most)}
	})}
}

// briefGossip is how many records a gossip carries that is made for its round-trip time. It is answered by as many. More cost more, and leave coordinates no better.
const briefGossip = 1

// news are up to so many records told to a member that is at a place: the nearest to it and some at random. Its own in the table, if there is one, is itself.
func (n *Node) news(at *coords.Coord, itself *PeerRecord, most int) []*PeerRecord {
	out := make([]*PeerRecord, 0, most) // of the table, where each peer is once
	add := func(r *PeerRecord) {
		if len(out) < most && r != itself && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	for _, f := range n.table.nearest(at, most/2+1) {
		add(n.table.entries[f.i].rec)
	}
	// Some may be drawn twice, or be among the nearest. Drawing more makes up for that, and a node that knows few
	// peers tells few.
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
		if r != nil && r.kind != gossiping { // the answer to another question
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

// Greet gossips with a member of which only the address is known.
func (n *Node) Greet(now time.Time, id ID, addrs []string) []Send {
	if id == n.cfg.ID {
		return nil
	}
	n.counts["greeting"]++
	n.spoke()
	to, itself := PeerRecord{ID: id, Addrs: addrs, Coord: n.coord}, n.table.recordOf(id)
	return []Send{n.ask(now, to, 0, gossiping, func(req uint64) Msg {
		return Gossip{Req: req, Self: n.Self(now), Records: n.news(&to.Coord, itself, MaxGossip)}
	})}
}
