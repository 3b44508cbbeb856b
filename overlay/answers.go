package overlay

import (
	"time"

	"shoal/channel"
)

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
