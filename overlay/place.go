package overlay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

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
	named   Named                // the judge's choice, while the task is offered to it before all others; else empty
	host    coords.HostRecord    // as it was handed in, until the lookup begins

	// Lookup.
	only   bool         // no task: who was found is the outcome
	found  []PeerRecord // nearest first
	asked  map[ID]bool
	depth  map[ID]int  // answers that led to a peer, and the question to it
	busy   int         // questions that are waited for
	behind int         // questions under way that are not waited for any more
	late   map[ID]bool // who did not answer in the time that was to be expected, and has not since
	spoke  map[ID]bool // who did answer
	done   bool
	heard  bool         // any answer
	second []PeerRecord // further starts that the lookup does not wait for: the host's best vantages, and a random one, since the peers around the nearest may all be in league
	timed  []PeerRecord // who measured the host, however far predicted to be

	// Measuring.
	record  coords.HostRecord
	probing int         // questions under way
	probes  int         // asked to measure
	silent  map[ID]bool // asked to measure, and not heard of since
	probed  bool        // asked for
	answers int
	samples []coords.Sample

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
	return n.PlaceAt(now, req, t, r, Named{})
}

// PlaceAt is Place for a task for which a judge has named a peer. The task is offered to that peer first. Only if the peer does not take it, or
// is not known any more, does the node look for others. A node that knows a sample of the members only looks at once, since the judge
// has seen no more than that sample.
func (n *Node) PlaceAt(now time.Time, req uint64, t Task, r coords.HostRecord, named Named) []Send {
	if len(n.places) >= MaxLookups {
		n.events = append(n.events, Event{Req: req, Err: ErrBusy})
		return nil
	}
	p := &placing{req: req, task: t, host: r, tried: map[ID]bool{}, limit: Widen(0)}
	n.places[req] = p
	rec := n.table.recordOf(named.Peer)
	switch {
	case rec == nil:
		return n.look(now, p)
	case n.table.sampled():
		return n.look(now, p, *rec)
	}
	p.named, p.found = named, []PeerRecord{*rec}
	return []Send{n.propose(now, p, *rec)}
}

// look begins the lookup of a placing, from some peers and those that the table holds.
func (n *Node) look(now time.Time, p *placing, from ...PeerRecord) []Send {
	r := p.host
	if !r.Valid() {
		n.counts["refused: malformed host record"]++
		r = coords.HostRecord{}
	}
	p.named, p.host, p.found = Named{}, coords.HostRecord{}, nil
	p.anycast = r.Anycast
	p.asked, p.depth, p.silent, p.late, p.spoke = map[ID]bool{}, map[ID]int{}, map[ID]bool{}, map[ID]bool{}, map[ID]bool{}
	p.record = r.Moved(n.table.whereIs)
	believe(p.record.Samples)
	p.seen = measured(p.record)
	p.at, p.known = target(&p.record, n.rng)
	if !p.known {
		p.at = n.coord
	}
	n.counts["lookup"]++
	p.add(n, append(from, n.table.near(p.at, n.cfg.Beam)...), 1)
	p.second = append(n.vantages(p, &r), n.table.some(1, n.rng)...)
	if r := n.someTaker(); r != nil {
		p.random = p.rtt(*r)
	}
	return n.search(now, p)
}

// someTaker is one at random of the known members that take tasks; nil: there is none.
func (n *Node) someTaker() *PeerRecord {
	if t := n.table.entries; len(t) > MaxTable { // not to go through thousands: nearly all of them take tasks
		for range MaxNear {
			if r := t[n.rng.IntN(len(t))].rec; r.Load.Threads > 0 {
				return r
			}
		}
	}
	count := 0
	for i := range n.table.entries {
		if n.table.entries[i].rec.Load.Threads > 0 {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	k := n.rng.IntN(count)
	for i := range n.table.entries {
		if n.table.entries[i].rec.Load.Threads == 0 {
			continue
		}
		if k == 0 {
			return n.table.entries[i].rec
		}
		k--
	}
	return nil
}

// unanswered goes on with a placing after a question or an offer was lost.
func (n *Node) unanswered(now time.Time, p *placing, r *request) []Send {
	p.found = slices.DeleteFunc(p.found, func(f PeerRecord) bool { return f.ID == r.to })
	p.timed = slices.DeleteFunc(p.timed, func(f PeerRecord) bool { return f.ID == r.to })
	switch r.kind {
	case finding, glancing:
		if p.ended(r); p.done || r.kind == glancing {
			return nil
		}
		return n.search(now, p)
	case timing:
		if p.probing == 0 || r.late { // an offer is under way, or the placing has gone on without it
			return nil
		}
		if p.probing--; !p.done {
			return nil
		}
		return n.probe(now, p)
	}
	// The peer may have taken the task. Offering on can only make two peers hold it, of which the second to claim drops it: that costs less
	// than waiting for a claim that mostly never comes, since a peer that does not answer is mostly gone.
	p.unsure = p.unsure || !r.sure
	if p.named.Peer != "" {
		return n.look(now, p)
	}
	return n.offer(now, p)
}

// offer makes the next offer, or ends the placing.
func (n *Node) offer(now time.Time, p *placing) []Send {
	if p.only {
		delete(n.places, p.req)
		n.events = append(n.events, Event{Req: p.req, Goal: p.at, Found: p.ranked(), Placed: Placed{Hops: p.hops(), Queries: len(p.asked)}})
		return nil
	}
	best, ok := n.next(now, p)
	if wider := Widen(p.limit); !ok && wider > 0 {
		p.limit = wider
		p.add(n, n.table.near(p.at, MaxNear), 1)
		best, ok = n.next(now, p)
	}
	if !ok && p.unsure { // no peer has said yes, but one may have it
		return n.end(p, Placed{}, ErrUnsure)
	}
	if !ok {
		why := fmt.Errorf("%w: %d peers could not start it in time", ErrRefused, p.offers)
		if p.offers == 0 {
			why = fmt.Errorf("%w: no peer is known that takes tasks", ErrRefused)
		}
		return n.end(p, Placed{}, why)
	}
	return []Send{n.propose(now, p, best)}
}

// propose offers the task of a placing to a peer.
func (n *Node) propose(now time.Time, p *placing, to PeerRecord) Send {
	p.tried[to.ID] = true
	p.offers++
	return n.ask(now, to, p.req, offering, func(req uint64) Msg { return Offer{Req: req, Signed: p.task.Signed, Header: p.task.Header} })
}

// next returns the candidate with the earliest expected finish: start + pages * (wait + 2 RTT). Among those that are
// about as good it chooses one at random, so that no peer can attract all of a host's tasks by being a little nearer
// than the others, and neighbours share them. Peers that swallowed tasks count only if there is no other candidate.
func (n *Node) next(now time.Time, p *placing) (PeerRecord, bool) {
	if p.offers >= p.limit {
		return PeerRecord{}, false
	}
	all := slices.DeleteFunc(p.all(), func(r PeerRecord) bool { return r.Load.Threads == 0 })
	// The nearest as they measured themselves: a young coordinate may put the nearest of all behind the others.
	slices.SortStableFunc(all, func(a, b PeerRecord) int { return cmp.Compare(p.away(a), p.away(b)) })
	var candidates, doubted []PeerRecord
	for i, r := range all {
		switch {
		case n.gaveBack(now, r.ID): // it leaves
		case p.tried[r.ID] || (p.silent[r.ID] || p.asked[r.ID] && !p.spoke[r.ID]) && p.limit <= firstOffers:
		case i >= firstOffers && p.limit > firstOffers && r.Load.Backlog > 0: // its queue is for the tasks near it: to take a place there from farther off wins nothing
		case tooFar(r.Load.Backlog, p.task.Header.Latest.Sub(now), p.away(r)-p.away(all[0])):
		case n.doubted(now, r.ID):
			doubted = append(doubted, r)
		default:
			candidates = append(candidates, r)
		}
	}
	if len(candidates) == 0 && p.limit > firstOffers {
		candidates = doubted
	}
	candidates = candidates[:min(len(candidates), p.limit)]
	if len(candidates) == 0 {
		return PeerRecord{}, false
	}
	best := slices.MinFunc(candidates, func(a, b PeerRecord) int { return cmp.Compare(p.finish(a), p.finish(b)) })
	finish, away := p.finish(best), p.away(best)
	candidates = slices.DeleteFunc(candidates, func(r PeerRecord) bool { return !alike(p.finish(r)-finish, finish, p.away(r)-away, away) })
	there := slices.DeleteFunc(slices.Clone(candidates), func(r PeerRecord) bool {
		_, measured := p.seen[r.ID]
		return !measured && !p.spoke[r.ID]
	})
	if len(there) > 0 {
		candidates = there // of the others it is not known whether they still are
	}
	return candidates[n.rng.IntN(len(candidates))], true
}

// all are those who were found, by prediction or since they measured the host.
func (p *placing) all() []PeerRecord {
	out := slices.Clone(p.found)
	for _, r := range p.timed {
		if !slices.ContainsFunc(p.found, func(f PeerRecord) bool { return f.ID == r.ID }) {
			out = append(out, r)
		}
	}
	return out
}

func (n *Node) onAnswer(now time.Time, from ID, m Answer) []Send {
	r := n.take(now, from, m.Req)
	if r == nil {
		return nil
	}
	if r.kind != offering {
		return n.lost(now, r)
	}
	n.table.answered(now, from)
	p, ok := n.places[r.place]
	if !ok {
		return nil
	}
	i := n.table.find(from)
	start := p.startOf(now, m)
	if !m.Accept {
		if i >= 0 {
			n.table.entries[i].refused(now, start, p.task.Header.Host)
		}
		if start.After(now) && !unwanted(now, start) {
			if i >= 0 {
				n.table.entries[i].busy(start.Sub(now))
			}
			if p.soonest.IsZero() || start.Before(p.soonest) {
				p.soonest = start
			}
		}
		if p.named.Peer != "" {
			return n.look(now, p)
		}
		return n.offer(now, p)
	}
	if i >= 0 { // until it gossips again: what it took lengthens its queue
		e := &n.table.entries[i]
		if e.more != nil {
			e.more.unwanted = 0
		}
		e.busy(start.Sub(now) + Service(p.task.Header, 0)/time.Duration(max(e.rec.Load.Threads, 1)))
	}
	out := Placed{Peer: from, Start: start, RandomRTT: p.random}
	if p.named.Peer == from {
		out.RTT, out.RandomRTT = p.named.RTT, p.named.Random
		return n.end(p, out, nil)
	}
	for _, f := range p.all() {
		if f.ID == from {
			out.RTT = p.rtt(f)
		}
	}
	return n.end(p, out, nil)
}

// startOf is when a peer says that it will start a task, or could: no earlier than now, no later than MaxBacklog from now, and if it took the task no later
// than the task's latest start.
func (p *placing) startOf(now time.Time, m Answer) time.Time {
	most := now.Add(MaxBacklog)
	if latest := p.task.Header.Latest; m.Accept && !latest.IsZero() && latest.Before(most) {
		most = latest
	}
	switch {
	case m.Start.Before(now) || most.Before(now):
		return now
	case m.Start.After(most):
		return most
	}
	return m.Start
}

// unwanted says whether a peer that refuses a task until some time does not want its host: it puts that off by a day. Its answer has travelled, and clocks differ.
func unwanted(now, start time.Time) bool { return !start.Before(now.Add(MaxBacklog - maxAhead)) }

// refused notes that a peer refused a task of a host. One that does not want a host may have the tasks of others. One that refuses several hosts, and has
// taken nothing between, is as good as full.
func (e *entry) refused(now, start time.Time, host string) {
	about := e.note()
	if unwanted(now, start) {
		if about.unwanted == 0 || host != about.host {
			about.unwanted, about.host = min(about.unwanted+1, unwantedHosts), host
		}
		if about.unwanted < unwantedHosts {
			return
		}
	}
	about.full = now.Add(min(max(start.Sub(now), fullLeast), fullMost))
	about.behind = start.Sub(now) >= behindLeast && !unwanted(now, start)
}

// For so long a peer is named for no task after it refused one, or gave one back: by then it has told of its queue. A peer that leaves refuses
// with an empty queue; one that is behind names a time at least behindLeast later, and has room as soon as it delivers. unwantedHosts is how many hosts, one after the other, a peer does not want that is as good as full.
const (
	fullLeast     = 10 * time.Second
	fullMost      = time.Minute
	behindLeast   = time.Second
	unwantedHosts = 3
)

// GaveBack says that a peer gave a task back that it had begun: it leaves, or its owner needs the computer. The peer is offered no task until
// it has told of its queue, which takes longer than the news of the task. An offer to a peer that has just left is not answered, and then its
// task waits for a claim that does not come.
func (n *Node) GaveBack(now time.Time, id ID) {
	if i := n.table.find(id); i >= 0 {
		note := n.table.entries[i].note()
		note.full, note.left = now.Add(fullMost), now.Add(fullMost)
	}
}

func (n *Node) gaveBack(now time.Time, id ID) bool {
	i := n.table.find(id)
	return i >= 0 && now.Before(n.table.entries[i].known().left)
}

func (n *Node) end(p *placing, placed Placed, err error) []Send {
	placed.Hops, placed.Queries, placed.Offers, placed.Samples = p.hops(), len(p.asked), p.offers, p.samples
	n.events = append(n.events, Event{Req: p.req, Placed: placed, Goal: p.at, Found: p.ranked(), Err: err})
	delete(n.places, p.req)
	return nil
}
