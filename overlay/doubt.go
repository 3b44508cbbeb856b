package overlay

import "time"

// doubt is what a placing node remembers of a peer, or of an account, whose tasks came to nothing. Gossip cannot tell: a peer that wastes tasks is
// never busy, and looks like the best candidate each time.
type doubt struct {
	times uint8
	noted time.Time // when the last one was added
	until time.Time // until when it is offered nothing
}

// A doubted peer gets no offers while there is another candidate: for doubtFirst at first and twice as long each time it happens again, up to
// doubtMost; the first time is free for a peer that has delivered before. After that it is on trial: a judge gives it one task at a time, until it has delivered. All is forgotten doubtFades after the end. A
// delivery takes three quarters of the doubt away. An account is doubted once accountDoubts of its tasks came to nothing, whichever of its peers
// had them. maxDoubts bounds the number of doubts.
const (
	doubtFirst    = 10 * time.Minute
	doubtMost     = 24 * time.Hour
	doubtFades    = 12 * time.Hour
	accountDoubts = 4
	maxDoubts     = 2048
)

// ofAccount is the key of an account's doubt. No peer has such an id.
func ofAccount(account string) ID { return ID("account " + account) }

// accountOf is the key of the doubt of a peer's account; empty: the account is not known.
func (n *Node) accountOf(id ID) ID {
	if i := n.table.find(id); i >= 0 {
		if a := n.table.entries[i].known().account; a != "" {
			return ofAccount(a)
		}
	}
	return ""
}

// Doubt says that a peer took a task of this node's at some time, and that the task came to nothing by its doing: it never claimed it, let the lease
// lapse, gave it back without a page, or said what no honest peer says. A peer that has delivered another since is only busier than it thought; one
// that has been away since lost the task with all else that it had, and is as good as any when it is back.
func (n *Node) Doubt(now time.Time, id ID, took time.Time) {
	if i := n.table.find(id); i >= 0 && n.table.entries[i].known().delivered.After(took) {
		return
	}
	if n.table.wasAway(id, took) {
		n.counts["not doubted: was away"]++
		return
	}
	// What it took before it was doubted last came to nothing with that: a short outage may end many tasks.
	if d, known := n.doubts[id]; known && !took.After(d.noted) {
		return
	}
	free := uint8(0)
	if i := n.table.find(id); i >= 0 && !n.table.entries[i].known().delivered.IsZero() {
		free = 1
	}
	n.doubtMore(now, id, free)
	if a := n.accountOf(id); a != "" {
		n.doubtMore(now, a, accountDoubts-1)
	}
	n.counts["doubted"]++
}

// doubtMore adds to a doubt. The first few are free.
func (n *Node) doubtMore(now time.Time, key ID, free uint8) {
	d, known := n.doubts[key]
	if !known && len(n.doubts) >= maxDoubts {
		n.forgetDoubt()
	}
	if known && now.After(d.until.Add(doubtFades)) {
		d = doubt{}
	}
	if d.times < 255 {
		d.times++
	}
	d.noted, d.until = now, now
	if d.times > free {
		span := doubtFirst
		for k := free + 1; k < d.times && span < doubtMost; k++ {
			span = min(2*span, doubtMost)
		}
		d.until = now.Add(span)
	}
	n.doubts[key] = d
}

// Trust says that a peer delivered pages of a task. To claim one is no reason to trust a peer. If it had refused others since it was behind with its own, it has a
// thread again, sooner than it thought.
func (n *Node) Trust(now time.Time, id ID) {
	n.doubtLess(now, id)
	if a := n.accountOf(id); a != "" {
		n.doubtLess(now, a)
	}
	if i := n.table.find(id); i >= 0 {
		about := n.table.entries[i].note()
		about.delivered = now
		if about.behind {
			about.behind, about.full = false, about.left
		}
	}
}

func (n *Node) doubtLess(now time.Time, key ID) {
	d, known := n.doubts[key]
	if !known {
		return
	}
	if d.times /= 4; d.times == 0 {
		delete(n.doubts, key)
		return
	}
	if d.until.After(now) {
		d.until = now
	}
	n.doubts[key] = d
}

// forgetDoubt drops the doubt that ends first.
func (n *Node) forgetDoubt() {
	first, found := ID(""), false
	for id, d := range n.doubts {
		if f := n.doubts[first]; !found || d.until.Before(f.until) || d.until.Equal(f.until) && id < first {
			first, found = id, true
		}
	}
	delete(n.doubts, first)
}

// doubted reports whether a peer should be offered nothing now.
func (n *Node) doubted(now time.Time, id ID) bool {
	if len(n.doubts) == 0 {
		return false
	}
	if now.Before(n.doubts[id].until) {
		return true
	}
	a := n.accountOf(id)
	return a != "" && now.Before(n.doubts[a].until)
}

// standing is how far a peer is trusted with tasks.
type standing uint8

const (
	usual   standing = iota // as far as is known, it delivers
	unknown                 // it has delivered nothing to this node yet: no task waits for it
	trial                   // it was doubted, and has delivered nothing since: it gets one task at a time
	avoided                 // it gets none

	// full is said besides: it refused a task for want of room, and gets none for now. What it does counts.
	full standing = 1 << 7
)

func (n *Node) standing(now time.Time, e *entry) standing {
	d, known := n.doubts[e.id]
	about, s := e.known(), usual
	switch {
	case n.doubted(now, e.id) || now.Before(about.left):
		return avoided
	case known && now.Before(d.until.Add(doubtFades)):
		s = trial
	case about.delivered.IsZero():
		s = unknown
	}
	if now.Before(about.full) {
		s |= full
	}
	return s
}
