package overlay

import (
	"slices"
	"time"
)

// aroundTrips is how many times as long a request may take for which a connection is being made, or that goes over a relay: the way is longer then, nobody knows by how much.
const aroundTrips = 8

// Around says that a request does not go straight to its receiver: it waits for a connection, or rides another's. Without a word, it has gone out at once.
func (n *Node) Around(now time.Time, req uint64) {
	if r, ok := n.pending[req]; ok {
		r.round = true
		n.expectAnew(now, req, r, aroundTrips*r.wants)
	}
}

// Straight says that a request that waited for a connection goes out now: what came before tells nothing of where its receiver is.
func (n *Node) Straight(now time.Time, req uint64) {
	if r, ok := n.pending[req]; ok {
		r.round, r.sent = false, now
		n.expectAnew(now, req, r, r.wants)
	}
}

// expectAnew lets the patience with a request begin again, unless it has ended.
func (n *Node) expectAnew(now time.Time, req uint64, r *request, wants time.Duration) {
	i := slices.IndexFunc(n.waits, func(w wait) bool { return w.req == req })
	if i < 0 && (r.late || r.wants == 0) {
		return
	}
	if i >= 0 {
		n.waits = slices.Delete(n.waits, i, i+1)
	}
	n.waitFor(wait{now.Add(n.pace.patience(wants)), req}, r)
}

// began is from when the answer to a request is waited for.
func (r *request) began(timeout time.Duration) time.Time {
	if r.sent.IsZero() {
		return r.until.Add(-timeout)
	}
	return r.sent
}
