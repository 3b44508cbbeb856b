package overlay

import (
	"shoal/channel"
	"shoal/coords"
	"time"
)

// finish is when a peer would probably have crawled the task, from now on.
func (p *placing) finish(r PeerRecord) time.Duration {
	return r.Load.Backlog + Service(p.task.Header, p.away(r))
}

// away is how far a peer counts as where a task is offered: farther than predicted if it has not measured the host. The least of many predictions is mostly too short.
func (p *placing) away(r PeerRecord) time.Duration {
	if _, measured := p.seen[r.ID]; measured || p.anycast || !p.known {
		return p.rtt(r)
	}
	return p.rtt(r) + unmeasured
}

const unmeasured = time.Millisecond

// rtt is the round-trip time between a peer and the host: as it measured it itself, else as predicted; the same for all where the host
// is everywhere or nowhere.
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

// Service is how long a task takes a peer at some round-trip time from its host, transfer left aside: pages * (wait + 2 RTT).
func Service(h channel.Header, rtt time.Duration) time.Duration {
	return time.Duration(max(h.Pages, 1)) * (h.Gap + 2*rtt)
}

// tooFar says whether a peer whose threads are busy is too far to wait for, where the nearest is at a distance: the longer its queue, measured by how long the
// task may wait, the nearer it must be. A place in a full queue is worth more to a task nearer to that peer, which will come, since it would not be
// full else; and each page of this one would keep a thread for two longer round trips. A peer with a free thread takes from anywhere.
func (p *placing) tooFar(now time.Time, r *PeerRecord, nearest time.Duration) bool {
	backlog, limit := r.Load.Backlog, p.task.Header.Latest.Sub(now)
	if backlog <= 0 || limit <= 0 {
		return false
	}
	room := 1 - min(float64(backlog)/float64(limit), 1)
	return p.away(*r)-nearest > time.Duration(room*float64(fartherMost))
}

// fartherMost is how much farther than the nearest a peer may be that is about to have a thread. Half of it and twice as much gave less goodput under overload.
const fartherMost = 50 * time.Millisecond
