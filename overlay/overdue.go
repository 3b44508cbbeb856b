package overlay

import (
	"time"

	"shoal/coords"
)

// overdue says who was asked in a lookup and should have answered by now, were it where its record says: a record from when its peer was young can put it
// hundreds of milliseconds from where it is. Nobody waits for such; so it must not pass for the nearest either.
func (n *Node) overdue(now time.Time, p *placing) map[ID]bool {
	var out map[ID]bool
	for _, req := range p.open {
		r := n.pending[req]
		if r == nil {
			continue
		}
		for i := range p.found {
			f := &p.found[i]
			if f.ID == r.to && now.Sub(r.until.Add(-n.cfg.Timeout)) > coords.Predict(n.coord, f.Coord)*overduePart/100+overdueTime {
				if out == nil {
					out = map[ID]bool{}
				}
				out[f.ID] = true
			}
		}
	}
	return out
}

// An answer is overdue after so much more than the predicted round trip: relative error, queues, and the other's own work included.
const (
	overduePart = 150 // per cent
	overdueTime = 20 * time.Millisecond
)

// behind are those found, whoever is overdue after the others.
func (n *Node) behind(now time.Time, p *placing) []PeerRecord {
	late := n.overdue(now, p)
	if len(late) == 0 {
		return p.found
	}
	out := make([]PeerRecord, 0, len(p.found))
	for _, last := range []bool{false, true} {
		for _, f := range p.found {
			if late[f.ID] == last {
				out = append(out, f)
			}
		}
	}
	return out
}
