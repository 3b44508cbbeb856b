package overlay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/channel"
	"shoal/coords"
)

// placing is one task on its way to a peer: first a lookup toward its host, then offers to the candidates by expected finish.
type placing struct {
	req     uint64
	task    Task
	at      coords.Coord // of the host
	known   bool         // where the host is; else any peer is as good
	anycast bool
	seen    map[ID]time.Duration // measured round-trip times to the host, by peer

	// Lookup.
	only  bool         // no task: who was found is the outcome
	found []PeerRecord // nearest first
	asked map[ID]bool
	depth map[ID]int // answers that led to a peer, and the question to it
	busy  int        // questions under way
	done  bool

	// Offers.
	offers  int
	limit   int
	tried   map[ID]bool
	unsure  bool
	soonest time.Time // earliest start that a busy peer named
	random  time.Duration
}

// Place begins to place a task near its host. What it came to is an Event with the same req.
func (n *Node) Place(now time.Time, req uint64, t Task, r coords.HostRecord) []Send {
	if len(n.places) >= MaxLookups {
		n.events = append(n.events, Event{Req: req, Err: ErrBusy})
		return nil
	}
	p := &placing{req: req, task: t, anycast: r.Anycast, seen: measured(r), asked: map[ID]bool{}, depth: map[ID]int{}, tried: map[ID]bool{}, limit: Widen(0)}
	moved := r.Moved(func(vantage string) (coords.Coord, bool) {
		if i := n.table.find(ID(vantage)); i >= 0 {
			return n.table.entries[i].rec.Coord, true
		}
		return coords.Coord{}, false
	})
	p.at, p.known = moved.Fit(n.rng)
	if !p.known {
		p.at = n.coord
	}
	n.counts["lookup"]++
	n.places[req] = p
	p.add(n, n.table.near(p.at, n.cfg.Beam), 1)
	for _, v := range r.Best { // whoever measured it from near is a good start, and a good end
		if i := n.table.find(ID(v)); i >= 0 {
			p.add(n, []PeerRecord{n.table.entries[i].rec}, 1)
		}
	}
	if some := n.takers(); len(some) > 0 {
		p.random = p.rtt(some[n.rng.IntN(len(some))])
	}
	return n.search(now, p)
}

// Lookup finds the peers nearest to a coordinate. Who they are is an Event with the same req.
func (n *Node) Lookup(now time.Time, req uint64, at coords.Coord) []Send {
	if len(n.places) >= MaxLookups || !at.Valid() {
		n.events = append(n.events, Event{Req: req, Err: ErrBusy})
		return nil
	}
	p := &placing{req: req, only: true, at: at, known: true, asked: map[ID]bool{}, depth: map[ID]int{}, tried: map[ID]bool{}}
	n.counts["lookup"]++
	n.places[req] = p
	p.add(n, n.table.near(p.at, n.cfg.Beam), 1)
	return n.search(now, p)
}

// NearVantages chooses up to n of the known peers to time a host next: the nearest to where its record puts it that have not timed it
// yet, and to the nearest that has; random ones where the record says nothing.
func NearVantages(r *coords.HostRecord, known []PeerRecord, n int, rng *rand.Rand) []PeerRecord {
	at, ok := r.Fit(rng)
	var fresh []PeerRecord
	for _, p := range known {
		if p.Load.Threads > 0 && !slices.ContainsFunc(r.Samples, func(s coords.Sample) bool { return s.Vantage == string(p.ID) }) {
			fresh = append(fresh, p)
		}
	}
	if ok {
		// Half of them near to where the record puts the host, half near to the peer that is nearest so far: coordinates err most
		// over short ways, and who is near to a near peer is near.
		near := nearest(at, fresh, (n+1)/2)
		best := r.Samples[0]
		for _, s := range r.Samples {
			if s.RTT < best.RTT {
				best = s
			}
		}
		for _, p := range nearest(best.At, fresh, n) {
			if len(near) < n && !slices.ContainsFunc(near, func(o PeerRecord) bool { return o.ID == p.ID }) {
				near = append(near, p)
			}
		}
		return near
	}
	rng.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
	return fresh[:min(n, len(fresh))]
}

// measured are the shortest round-trip times that peers have measured to a host.
func measured(r coords.HostRecord) map[ID]time.Duration {
	m := make(map[ID]time.Duration, len(r.Samples))
	for _, s := range r.Samples {
		if old, ok := m[ID(s.Vantage)]; !ok || s.RTT < old {
			m[ID(s.Vantage)] = s.RTT
		}
	}
	return m
}

// takers are the known members that take tasks.
func (n *Node) takers() []PeerRecord {
	var out []PeerRecord
	for _, e := range n.table.entries {
		if e.rec.Load.Threads > 0 {
			out = append(out, e.rec)
		}
	}
	return out
}

// add takes records into the beam.
func (p *placing) add(n *Node, recs []PeerRecord, depth int) {
	for _, r := range recs {
		if r.ID == n.cfg.ID {
			continue
		}
		if i := slices.IndexFunc(p.found, func(f PeerRecord) bool { return f.ID == r.ID }); i >= 0 {
			if r.Seq > p.found[i].Seq {
				p.found[i] = r
			}
			continue
		}
		p.found = append(p.found, r)
		if _, known := p.depth[r.ID]; !known && len(p.depth) < maxDepths {
			p.depth[r.ID] = depth
		}
	}
	p.found = nearest(p.at, p.found, MaxNear)
}

// maxDepths bounds what a placing remembers of who led to whom.
const maxDepths = 1024

// hops is how many messages, one after the other, led to the nearest peer found.
func (p *placing) hops() int {
	for _, r := range p.found {
		if d := p.depth[r.ID]; d > 0 {
			return d
		}
	}
	return 0
}

// search asks the nearest that were not asked yet, alpha at a time, until the beam holds nobody new.
func (n *Node) search(now time.Time, p *placing) []Send {
	var out []Send
	if !p.done {
		for _, r := range p.found[:min(len(p.found), n.cfg.Beam)] {
			if p.busy >= n.cfg.Alpha || len(p.asked) >= maxAsked {
				break
			}
			if p.asked[r.ID] {
				continue
			}
			p.asked[r.ID] = true
			p.busy++
			out = append(out, n.ask(now, r, p.req, false, func(req uint64) Msg { return FindNear{Req: req, At: p.at, N: n.cfg.Beam} }))
		}
		if p.busy > 0 {
			return out
		}
		p.done = true
	}
	return append(out, n.offer(now, p)...)
}

func (n *Node) onNear(now time.Time, from ID, m Near) []Send {
	if len(m.Records) > MaxNear {
		return n.refuse("too many records")
	}
	r := n.take(from, m.Req)
	if r == nil {
		return nil
	}
	n.table.answered(now, from)
	p, ok := n.places[r.place]
	if !ok {
		return nil
	}
	p.busy--
	var good []PeerRecord
	for _, rec := range m.Records {
		if err := rec.Check(); err != nil {
			n.counts["refused: malformed record"]++
			continue
		}
		if rec.ID != n.cfg.ID {
			n.table.hear(now, rec, n.rng)
			good = append(good, rec)
		}
	}
	p.add(n, good, p.depth[from]+1)
	return n.search(now, p)
}

// unanswered goes on with a placing after a question or an offer was lost.
func (n *Node) unanswered(now time.Time, p *placing, r *request) []Send {
	p.found = slices.DeleteFunc(p.found, func(f PeerRecord) bool { return f.ID == r.to })
	if !p.done {
		p.busy--
		return n.search(now, p)
	}
	if r.offer {
		// It may have been taken. Offering on can only make two peers hold the task, of which the second to claim drops it: that costs
		// less than waiting for a claim that will mostly never come, since who does not answer is mostly gone.
		p.unsure = true
	}
	return n.offer(now, p)
}

// offer makes the next offer, or ends the placing.
func (n *Node) offer(now time.Time, p *placing) []Send {
	if p.only {
		delete(n.places, p.req)
		n.events = append(n.events, Event{Req: p.req, Found: p.found, Placed: Placed{Hops: p.hops(), Queries: len(p.asked)}})
		return nil
	}
	best, ok := n.next(p)
	if wider := Widen(p.limit); !ok && wider > 0 {
		p.limit = wider
		p.add(n, n.table.near(p.at, MaxNear), 1)
		best, ok = n.next(p)
	}
	if !ok && p.unsure { // nobody has said yes, but somebody may have it
		return n.end(p, Placed{}, ErrUnsure)
	}
	if !ok {
		why := fmt.Errorf("%w: %d peers could not start it in time", ErrRefused, p.offers)
		if p.offers == 0 {
			why = fmt.Errorf("%w: no peer is known that takes tasks", ErrRefused)
		}
		return n.end(p, Placed{}, why)
	}
	p.tried[best.ID] = true
	p.offers++
	return []Send{n.ask(now, best, p.req, true, func(req uint64) Msg { return Offer{Req: req, Signed: p.task.Signed, Header: p.task.Header} })}
}

// next is the candidate with the earliest expected finish: start + pages * (wait + 2 RTT).
func (n *Node) next(p *placing) (PeerRecord, bool) {
	if p.offers >= p.limit {
		return PeerRecord{}, false
	}
	var candidates []PeerRecord
	for _, r := range p.found {
		if r.Load.Threads > 0 && !p.tried[r.ID] {
			candidates = append(candidates, r)
		}
	}
	// The nearest as they measured themselves: a young coordinate may put the nearest of all behind the others.
	slices.SortStableFunc(candidates, func(a, b PeerRecord) int { return cmp.Compare(p.rtt(a), p.rtt(b)) })
	candidates = candidates[:min(len(candidates), p.limit)]
	if len(candidates) == 0 {
		return PeerRecord{}, false
	}
	return slices.MinFunc(candidates, func(a, b PeerRecord) int {
		return cmp.Or(cmp.Compare(p.finish(a), p.finish(b)), cmp.Compare(a.ID, b.ID))
	}), true
}

// finish is when a peer would probably have crawled the task, from now on.
func (p *placing) finish(r PeerRecord) time.Duration {
	return r.Load.Backlog + Service(p.task.Header, p.rtt(r))
}

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

func (n *Node) onAnswer(now time.Time, from ID, m Answer) []Send {
	r := n.take(from, m.Req)
	if r == nil {
		return nil
	}
	n.table.answered(now, from)
	p, ok := n.places[r.place]
	if !ok {
		return nil
	}
	i := n.table.find(from)
	if !m.Accept {
		if m.Start.After(now) && m.Start.Before(now.Add(MaxBacklog)) {
			if i >= 0 {
				n.table.entries[i].rec.Load.Backlog = m.Start.Sub(now)
			}
			if p.soonest.IsZero() || m.Start.Before(p.soonest) {
				p.soonest = m.Start
			}
		}
		return n.offer(now, p)
	}
	if i >= 0 { // until it gossips again: what it took lengthens its queue
		n.table.entries[i].rec.Load.Backlog = min(max(m.Start.Sub(now), 0)+Service(p.task.Header, 0)/time.Duration(max(n.table.entries[i].rec.Load.Threads, 1)), MaxBacklog)
	}
	out := Placed{Peer: from, Start: m.Start, RandomRTT: p.random}
	for _, f := range p.found {
		if f.ID == from {
			out.RTT = p.rtt(f)
		}
	}
	return n.end(p, out, nil)
}

func (n *Node) end(p *placing, placed Placed, err error) []Send {
	placed.Hops, placed.Queries, placed.Offers = p.hops(), len(p.asked), p.offers
	n.events = append(n.events, Event{Req: p.req, Placed: placed, Found: p.found, Err: err})
	delete(n.places, p.req)
	return nil
}

// Measuring a host of which little is known: after some random peers, up to NearRounds times NearProbes near ones, as long as the
// shortest time found falls below NearGain of what it was.
const (
	NearRounds = 4
	NearProbes = 4
	NearGain   = .9
)
