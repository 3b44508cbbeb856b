package overlay

import "time"

// request is a message that awaits its answer.
type request struct {
	to    ID
	until time.Time
	place uint64 // the placing that it belongs to; 0: gossip
	kind  kind
	sure  bool          // of an offer: it never reached its receiver
	late  bool          // its patience has ended: the node goes on without its answer
	round bool          // it does not go straight to its receiver, or not yet
	wants time.Duration // predicted time until it is answered; of questions and measurements only
	sent  time.Time     // when it went out; zero: at once
}

// kind is what a request is for.
type kind uint8

const (
	gossiping kind = iota
	finding        // a question of a lookup
	glancing       // a question of a lookup that does not wait for the answer
	timing         // has a candidate for a task measure its host
	surveying      // has a peer measure a host of a survey
	offering       // of a task
)

// ask sends a request that will be answered, or counted as lost.
func (n *Node) ask(now time.Time, to PeerRecord, place uint64, k kind, m func(req uint64) Msg) Send {
	n.req++
	n.pending[n.req] = &request{to: to.ID, until: now.Add(n.cfg.Timeout), place: place, kind: k}
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

// Failed says that a request could not be delivered, so that nothing needs to wait for its time-out. sure: it never reached its receiver.
func (n *Node) Failed(now time.Time, req uint64, sure bool) []Send {
	r, ok := n.pending[req]
	if !ok {
		return nil
	}
	delete(n.pending, req)
	r.sure = sure
	return n.lost(now, r)
}

// lost handles a request that stays without an answer.
func (n *Node) lost(now time.Time, r *request) []Send {
	n.counts["unanswered"]++
	if n.table.fail(r.to) {
		n.vivaldi.Forget(string(r.to))
	}
	if r.kind == surveying {
		return n.surveyWithout(now, r)
	}
	if p, ok := n.places[r.place]; ok {
		return n.unanswered(now, p, r)
	}
	return nil
}
