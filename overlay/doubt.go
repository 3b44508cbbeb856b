package overlay

import "time"

// doubt is what a placing node remembers of a peer that took a task and did nothing with it. Gossip cannot tell: a
// peer that swallows tasks is never busy, and looks like the best candidate each time.
type doubt struct {
	times uint8
	until time.Time
}

// A doubted peer gets offers only if there is no other candidate, for doubtFirst at first and twice as long each time
// it happens again, up to doubtMost. maxDoubts bounds the number of doubts.
const (
	doubtFirst = 30 * time.Minute
	doubtMost  = 24 * time.Hour
	maxDoubts  = 1024
)

// Doubt says that a peer took a task of this node's at some time and never claimed it. One that has claimed another since is only busier than it thought;
// one that has been away since lost it with all else that it had, and is as good as any when it is back.
func (n *Node) Doubt(now time.Time, id ID, took time.Time) {
	if i := n.table.find(id); i >= 0 && n.table.entries[i].known().claimed.After(took) {
		return
	}
	if n.table.wasAway(id, took) {
		n.counts["not doubted: was away"]++
		return
	}
	d, known := n.doubts[id]
	if !known && len(n.doubts) >= maxDoubts {
		n.forgetDoubt()
	}
	span := doubtFirst
	for range d.times {
		span = min(2*span, doubtMost)
	}
	if d.times < 255 {
		d.times++
	}
	d.until = now.Add(span)
	n.doubts[id] = d
	n.counts["doubted"]++
}

// Trust says that a peer claimed a task.
func (n *Node) Trust(now time.Time, id ID) {
	delete(n.doubts, id)
	if i := n.table.find(id); i >= 0 {
		n.table.entries[i].note().claimed = now
	}
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

func (n *Node) doubted(now time.Time, id ID) bool {
	d, known := n.doubts[id]
	return known && now.Before(d.until)
}
