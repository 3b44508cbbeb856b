package overlay

import (
	"cmp"
	"slices"
	"time"
)

// A node waits for an answer about as long as it should take, were the peer where its record says. A record can be of a peer that is gone, or
// from when its peer was young, hundreds of milliseconds from where it is now. So when an answer is late, the next peer is asked at once, and
// the late one is neither asked to measure nor offered the task before the others. If its answer comes after all, it counts. None of that
// holds for offers: a node makes no second offer before the first is answered or lost.

// aroundTrips is how many times as long a request may take that waits for a connection or goes over a relay. The way is longer then, by an
// unknown time.
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

// pace is how long answers take compared with what was predicted, by the mean and the mean deviation of that ratio, as TCP's retransmission time-out (Jacobson,
// "Congestion avoidance and control", SIGCOMM 1988; RFC 6298). What a dial takes is no part of it where the runner tells of that (Around, Straight).
type pace struct{ mean, dev float64 }

// The parameters of waiting.
const (
	paceLeast = 1.5                   // a wait is at least so many times what was predicted
	paceMost  = 16                    // and at most
	paceDevs  = 4                     // deviations above the mean
	atOnce    = 15 * time.Millisecond // is added to what is predicted: queues, and the other's own work
)

func newPace() pace { return pace{mean: 1, dev: (paceLeast - 1) / paceDevs} }

// learn takes note of an answer.
func (p *pace) learn(r *request, took time.Duration) {
	if r.kind != finding && r.kind != glancing || r.wants <= 0 || r.round {
		return
	}
	ratio := min(float64(took)/float64(r.wants), paceMost)
	off := ratio - p.mean
	p.mean += off / 8
	p.dev += (max(off, -off) - p.dev) / 4
}

// patience is how long to wait for what should take some time.
func (p *pace) patience(wants time.Duration) time.Duration {
	return time.Duration(float64(wants) * min(max(p.mean+paceDevs*p.dev, paceLeast), paceMost))
}

// wait is when the patience with a request ends.
type wait struct {
	at  time.Time
	req uint64
}

// expect says how long the answer to the last request should take.
func (n *Node) expect(now time.Time, takes time.Duration) {
	r := n.pending[n.req]
	r.wants = takes + atOnce
	n.waitFor(wait{now.Add(n.pace.patience(r.wants)), n.req}, r)
}

// waitFor takes note of a wait that ends before the request does.
func (n *Node) waitFor(w wait, r *request) {
	if !w.at.Before(r.until) {
		return
	}
	i, _ := slices.BinarySearchFunc(n.waits, w, func(a, b wait) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.req, b.req)) })
	n.waits = slices.Insert(n.waits, i, w)
}

// nextWait returns when the next wait for an answer ends.
func (n *Node) nextWait() (time.Time, bool) {
	for len(n.waits) > 0 {
		if _, ok := n.pending[n.waits[0].req]; ok {
			return n.waits[0].at, true
		}
		n.waits = slices.Delete(n.waits, 0, 1) // it was answered
	}
	return time.Time{}, false
}

// impatient goes on without those whose answers are overdue.
func (n *Node) impatient(now time.Time) (out []Send) {
	for {
		at, ok := n.nextWait()
		if !ok || now.Before(at) {
			return out
		}
		r := n.pending[n.waits[0].req]
		n.waits = slices.Delete(n.waits, 0, 1)
		if r.kind == surveying {
			n.counts["late"]++
			out = append(out, n.surveyWithout(now, r)...)
			r.late = true
		} else if p, ok := n.places[r.place]; ok {
			n.counts["late"]++
			if r.late = true; r.kind == finding || r.kind == glancing {
				p.late[r.to] = true
			}
			out = append(out, n.without(now, p, r)...)
		}
	}
}

// without continues a placing as if a peer had not been asked.
func (n *Node) without(now time.Time, p *placing, r *request) []Send {
	switch {
	case r.kind == finding:
		p.busy--
		p.behind++
		if !p.done {
			return n.search(now, p)
		}
	case r.kind == timing && p.probing > 0: // else an offer is under way
		p.probing--
		p.answers++ // that it is farther than the nearest so far, or gone
		if p.done {
			return n.probe(now, p)
		}
	}
	return nil
}

// ended counts a question of the lookup out.
func (p *placing) ended(r *request) {
	switch {
	case r.kind == glancing:
	case r.late:
		p.behind--
	default:
		p.busy--
	}
}

// answered notes that a peer is there, however late.
func (p *placing) answered(from ID) {
	delete(p.late, from)
	p.spoke[from] = true
}
