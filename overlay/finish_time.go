package overlay

import (
	"time"

	"shoal/channel"
	"shoal/coords"
)

// When a candidate would have finished a task decides who gets it. A judge and a placing reckon alike.

// Service is how long a task takes a peer at some round-trip time from its host, transfer left aside: pages * (wait + 2 RTT).
func Service(h channel.Header, rtt time.Duration) time.Duration { return service(h.Pages, h.Gap, rtt) }

func service(pages int, gap, rtt time.Duration) time.Duration {
	return time.Duration(max(pages, 1)) * (gap + 2*rtt)
}

// finish is how long from now on a peer would probably need until it has crawled the task.
func (p *placing) finish(r PeerRecord) time.Duration {
	return r.Load.Backlog + Service(p.task.Header, p.away(r))
}

// away is how far from the host a peer counts: farther than predicted if it has not measured the host. The least of many predictions is mostly
// too short.
func (p *placing) away(r PeerRecord) time.Duration {
	if _, measured := p.seen[r.ID]; measured || p.anycast || !p.known {
		return p.rtt(r)
	}
	return p.rtt(r) + unmeasured
}

const unmeasured = time.Millisecond

// rtt is the round-trip time between a peer and the host: as the peer measured it, else as predicted. Where the host is everywhere or
// nowhere it is the same for all.
func (p *placing) rtt(r PeerRecord) time.Duration {
	if p.anycast {
		return 0
	}
	if d, ok := p.seen[r.ID]; ok {
		return d
	}
	if !p.known {
		return 0
	}
	return coords.Predict(r.Coord, p.at)
}

// tooFar says whether a peer whose threads are busy is too far to wait for, being farther from the host than the nearest peer. The longer
// its backlog, measured by how long the task may wait, the nearer it must be. A place in a full queue is worth more to a task nearer to that
// peer, which will come, since the queue would not be full otherwise; and each page of this one would keep a thread for two longer round
// trips. A peer with a free thread takes tasks from anywhere.
func tooFar(backlog, patience, farther time.Duration) bool {
	if backlog <= 0 || patience <= 0 {
		return false
	}
	room := 1 - min(float64(backlog)/float64(patience), 1)
	return farther > time.Duration(room*float64(fartherMost))
}

// fartherMost is how much farther than the nearest a peer may be that is about to have a thread. Half of it and twice as much gave less
// goodput under overload.
const fartherMost = 50 * time.Millisecond

// alike says whether a candidate is about as good as the best one, which finishes and is away as given: it finishes no more than a part of
// that later, and is no more than that part and a time farther, less than what a round-trip time varies by. The best one is as good as itself, whatever the
// times are.
func alike(later, finish, farther, away time.Duration) bool {
	return later <= max(finish, 0)/alikePart && farther <= max(away, 0)/alikePart+alikeRTT
}

const (
	alikePart = 50
	alikeRTT  = 250 * time.Microsecond
)
