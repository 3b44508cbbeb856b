package overlay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
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
	heard  bool         // anybody
	second []PeerRecord // further starts, for which nobody waits: the host's best vantages, and one at random, since those around the nearest may be all of one mind
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
	if len(n.places) >= MaxLookups {
		n.events = append(n.events, Event{Req: req, Err: ErrBusy})
		return nil
	}
	if !r.Valid() {
		n.counts["refused: malformed host record"]++
		r = coords.HostRecord{}
	}
	p := &placing{req: req, task: t, anycast: r.Anycast, seen: measured(r), asked: map[ID]bool{}, depth: map[ID]int{}, tried: map[ID]bool{}, silent: map[ID]bool{}, late: map[ID]bool{}, spoke: map[ID]bool{}, limit: Widen(0)}
	p.record = r.Moved(func(vantage string) (coords.Coord, bool) {
		if i := n.table.find(ID(vantage)); i >= 0 {
			return n.table.entries[i].rec.Coord, true
		}
		return coords.Coord{}, false
	})
	p.at, p.known = target(&p.record, n.rng)
	if !p.known {
		p.at = n.coord
	}
	n.counts["lookup"]++
	n.places[req] = p
	p.add(n, n.table.near(p.at, n.cfg.Beam), 1)
	p.second = append(n.vantages(p, &r), n.table.some(1, n.rng)...)
	if r := n.someTaker(); r != nil {
		p.random = p.rtt(*r)
	}
	return n.search(now, p)
}

// vantages takes a host's best vantages into the beam: whoever measured it from near is a good start, and a good end. Those that the table does not hold are
// returned, a few of them: their ids are known, and mostly a way to them. They become candidates when they tell of themselves.
func (n *Node) vantages(p *placing, r *coords.HostRecord) []PeerRecord {
	var strangers []PeerRecord
	for _, v := range r.Best {
		if i := n.table.find(ID(v)); i >= 0 {
			p.add(n, []PeerRecord{*n.table.entries[i].rec}, 1)
		} else if len(strangers) < maxStrangers && ID(v) != n.cfg.ID {
			strangers = append(strangers, PeerRecord{ID: ID(v)})
			p.depth[ID(v)] = 1
		}
	}
	return strangers
}

// Lookup finds the peers nearest to a coordinate. Who they are is an Event with the same req.
func (n *Node) Lookup(now time.Time, req uint64, at coords.Coord) []Send {
	if len(n.places) >= MaxLookups || !at.Valid() {
		n.events = append(n.events, Event{Req: req, Err: ErrBusy})
		return nil
	}
	p := &placing{req: req, only: true, at: at, known: true, asked: map[ID]bool{}, depth: map[ID]int{}, tried: map[ID]bool{}, late: map[ID]bool{}, spoke: map[ID]bool{}}
	n.counts["lookup"]++
	n.places[req] = p
	p.add(n, n.table.near(p.at, n.cfg.Beam), 1)
	p.second = n.table.some(1, n.rng)
	return n.search(now, p)
}

// target is where a lookup for a host goes: to the peer that measured it from very near, or to where its samples put it. Few samples in nine unknowns leave
// 10 ms of doubt, so a peer that is nearer than that is the better guess.
func target(r *coords.HostRecord, rng *rand.Rand) (coords.Coord, bool) {
	if best := shortest(r); best != nil && best.RTT <= veryNear {
		at := best.At
		at.Height = max(0, float64(best.RTT)/float64(time.Millisecond)-at.Height)
		at.Adjust, at.Err = 0, max(at.Err, coords.MinErr)
		return at, true
	}
	return r.Fit(rng)
}

const veryNear = 10 * time.Millisecond

// shortest is the sample with the shortest time.
func shortest(r *coords.HostRecord) *coords.Sample {
	var best *coords.Sample
	for i := range r.Samples {
		if best == nil || r.Samples[i].RTT < best.RTT {
			best = &r.Samples[i]
		}
	}
	return best
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

// someTaker is one at random of the known members that take tasks; nil: there is none.
func (n *Node) someTaker() *PeerRecord {
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

// add takes records into the beam.
func (p *placing) add(n *Node, recs []PeerRecord, depth int) {
	for _, r := range recs {
		if r.ID == n.cfg.ID {
			continue
		}
		if _, ok := p.seen[r.ID]; ok {
			p.remember(r)
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

// remember keeps a peer that measured the host a candidate. There are no more of them than samples.
func (p *placing) remember(r PeerRecord) {
	if i := slices.IndexFunc(p.timed, func(f PeerRecord) bool { return f.ID == r.ID }); i < 0 {
		p.timed = append(p.timed, r)
	} else if r.Seq > p.timed[i].Seq {
		p.timed[i] = r
	}
}

// enough is how many of the nearest that were found must have been asked before a lookup ends.
const enough = 4

// maxStrangers is how many vantages of a host that this node does not know are asked at the start of a lookup, earlyProbes how many of Config.Probes are
// sent before the lookup has ended.
const (
	maxStrangers = 3
	earlyProbes  = 3
)

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
		most := max(n.cfg.Alpha-max(len(p.second)-1, 0), 1) // vantages of the host are asked too, which are nearer to it than those here
		nearest := 0
		for _, r := range p.found {
			if p.late[r.ID] {
				continue
			}
			if nearest++; nearest > enough {
				break // the nearest have been asked, and know nobody nearer
			}
			if p.busy >= most || len(p.asked) >= maxAsked {
				break
			} else if p.asked[r.ID] {
				continue
			}
			out = append(out, n.query(now, p, r))
			if _, timed := p.seen[r.ID]; p.heard && !timed && r.Load.Threads > 0 && p.probes < min(earlyProbes, n.cfg.Probes) && p.measures() {
				out = append(out, n.time(now, p, r)) // at once, since it is as near as any found so far: that saves waiting in the end
			}
		}
		for _, r := range p.second {
			if !p.asked[r.ID] && r.ID != n.cfg.ID {
				s := n.query(now, p, r)
				p.busy-- // nobody waits for it
				n.pending[n.req].aside = true
				out = append(out, s)
			}
		}
		p.second = nil
		if p.busy > 1 || len(out) > 0 || p.busy+p.behind > 0 && !p.heard {
			return out
		}
		p.done = true // who is silent still is left behind
	}
	return append(out, n.probe(now, p)...)
}

func (n *Node) query(now time.Time, p *placing, r PeerRecord) Send {
	p.asked[r.ID] = true
	p.busy++
	s := n.ask(now, r, p.req, false, func(req uint64) Msg { return FindNear{Req: req, At: p.at, N: n.cfg.Beam} })
	n.pending[n.req].find = true
	if r.Coord.Valid() { // else only its id is known
		n.expect(now, coords.Predict(n.coord, r.Coord))
	}
	return s
}

// probe has the best candidates measure their way to the host before the task is offered: where the host is known to a few milliseconds only, that tells
// them apart.
func (n *Node) probe(now time.Time, p *placing) []Send {
	var out []Send
	if !p.probed && p.measures() {
		p.probed = true
		var takers []*PeerRecord
		all := p.all()
		for i := range all {
			if all[i].Load.Threads > 0 {
				takers = append(takers, &all[i])
			}
		}
		skip := func(id ID) bool {
			_, seen := p.seen[id]
			return seen || p.silent[id] || p.asked[id] && !p.spoke[id]
		}
		for _, r := range likely(&p.record, takers, skip, max(n.cfg.Probes-p.probes, 0), n.rng) {
			out = append(out, n.time(now, p, r))
		}
	}
	// Whoever answers first is near to the host, since the others still measure: a few answers are enough.
	if p.probing > 0 && p.answers < enoughProbes {
		return out
	}
	p.probing = 0
	return n.offer(now, p)
}

const enoughProbes = 3

// time has a peer measure its way to the host.
func (n *Node) time(now time.Time, p *placing, r PeerRecord) Send {
	p.probing++
	p.probes++
	p.silent[r.ID] = true
	s := n.ask(now, r, p.req, false, func(req uint64) Msg { return ProbeHost{Req: req, Host: p.task.Header.Host} })
	n.pending[n.req].probe = true
	n.expect(now, coords.Predict(n.coord, r.Coord)+p.measuring(&r))
	return s
}

// measures says whether candidates measure their way to the host of a placing.
func (p *placing) measures() bool {
	return !p.only && p.known && !p.anycast && p.task.Header.Host != ""
}

func (n *Node) onProbed(now time.Time, from ID, m Probed) []Send {
	r := n.take(now, from, m.Req)
	if r == nil {
		return nil
	}
	if !r.probe {
		return n.lost(now, r)
	}
	n.table.answered(now, from)
	p, ok := n.places[r.place]
	if !ok {
		return nil
	}
	p.answered(from)
	if m.RTT > 0 { // else the host cannot be reached from there
		delete(p.silent, from)
	}
	s := coords.Sample{Vantage: string(from), At: m.At, RTT: m.RTT, When: now.Unix()}
	if m.RTT > 0 && p.record.Add(s) {
		p.seen[from] = m.RTT
		p.samples = append(p.samples, s)
	}
	if p.probing == 0 { // an offer is under way
		return nil
	}
	if !r.late {
		p.probing--
		p.answers++
	}
	if !p.done { // the lookup goes on
		return nil
	}
	return n.probe(now, p)
}

func (n *Node) onNear(now time.Time, from ID, m Near) []Send {
	if len(m.Records) > MaxNear {
		return n.refuse("too many records")
	}
	r := n.take(now, from, m.Req)
	if r == nil {
		return nil
	}
	if !r.find { // the answer to another question
		return n.lost(now, r)
	}
	n.table.answered(now, from)
	p, ok := n.places[r.place]
	if !ok {
		return nil
	}
	p.answered(from)
	p.ended(r)
	var good []PeerRecord
	for _, rec := range m.Records {
		if err := rec.Check(); err != nil {
			n.counts["refused: malformed record"]++
			continue
		}
		if rec.ID != n.cfg.ID {
			n.table.hear(now, rec)
			good = append(good, *rec)
		}
	}
	n.table.trim(n.rng)
	p.add(n, good, p.depth[from]+1)
	if p.heard = true; p.done {
		return nil
	}
	return n.search(now, p)
}

// unanswered goes on with a placing after a question or an offer was lost.
func (n *Node) unanswered(now time.Time, p *placing, r *request) []Send {
	p.found = slices.DeleteFunc(p.found, func(f PeerRecord) bool { return f.ID == r.to })
	p.timed = slices.DeleteFunc(p.timed, func(f PeerRecord) bool { return f.ID == r.to })
	switch {
	case r.find:
		if p.ended(r); p.done || r.aside {
			return nil
		}
		return n.search(now, p)
	}
	if r.probe {
		if p.probing == 0 || r.late { // an offer is under way, or it was not waited for
			return nil
		}
		if p.probing--; !p.done {
			return nil
		}
		return n.probe(now, p)
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
		n.events = append(n.events, Event{Req: p.req, Goal: p.at, Found: p.ranked(), Placed: Placed{Hops: p.hops(), Queries: len(p.asked)}})
		return nil
	}
	best, ok := n.next(now, p)
	if wider := Widen(p.limit); !ok && wider > 0 {
		p.limit = wider
		p.add(n, n.table.near(p.at, MaxNear), 1)
		best, ok = n.next(now, p)
	}
	if !ok && p.unsure { // nobody has said yes, but somebody may have it
		return n.end(now, p, Placed{}, ErrUnsure)
	}
	if !ok {
		why := fmt.Errorf("%w: %d peers could not start it in time", ErrRefused, p.offers)
		if p.offers == 0 {
			why = fmt.Errorf("%w: no peer is known that takes tasks", ErrRefused)
		}
		return n.end(now, p, Placed{}, why)
	}
	p.tried[best.ID] = true
	p.offers++
	return []Send{n.ask(now, best, p.req, true, func(req uint64) Msg { return Offer{Req: req, Signed: p.task.Signed, Header: p.task.Header} })}
}

// next is the candidate with the earliest expected finish: start + pages * (wait + 2 RTT). Of those that are about as good it is one at random, so that
// nobody can make sure of a host's tasks by being a little nearer to it than all others, and neighbours share them. Peers that swallowed tasks count only
// where there is nobody else.
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
		case p.tried[r.ID] || (p.silent[r.ID] || p.asked[r.ID] && !p.spoke[r.ID]) && p.limit <= firstOffers:
		case i >= firstOffers && p.limit > firstOffers && r.Load.Backlog > 0: // its queue is for the tasks near it: to take a place there from farther off wins nothing
		case p.tooFar(now, &r, p.away(all[0])):
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
	latest, furthest := p.finish(best)+p.finish(best)/alikePart, p.away(best)+p.away(best)/alikePart+alikeRTT
	candidates = slices.DeleteFunc(candidates, func(r PeerRecord) bool { return p.finish(r) > latest || p.away(r) > furthest })
	there := slices.DeleteFunc(slices.Clone(candidates), func(r PeerRecord) bool {
		_, measured := p.seen[r.ID]
		return !measured && !p.spoke[r.ID]
	})
	if len(there) > 0 {
		candidates = there // of the others it is not known whether they still are
	}
	return candidates[n.rng.IntN(len(candidates))], true
}

// Candidates are about as good as the best one if they finish later by no more than this part of it all, and are farther by no more than this part and
// this time: less than what a round-trip time varies by.
const (
	alikePart = 50
	alikeRTT  = 250 * time.Microsecond
)

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
	if !r.offer {
		return n.lost(now, r)
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
				n.table.entries[i].busy(m.Start.Sub(now))
			}
			if p.soonest.IsZero() || m.Start.Before(p.soonest) {
				p.soonest = m.Start
			}
		}
		return n.offer(now, p)
	}
	if i >= 0 { // until it gossips again: what it took lengthens its queue
		e := &n.table.entries[i]
		e.busy(min(max(m.Start.Sub(now), 0)+Service(p.task.Header, 0)/time.Duration(max(e.rec.Load.Threads, 1)), MaxBacklog))
	}
	out := Placed{Peer: from, Start: m.Start, RandomRTT: p.random}
	for _, f := range p.all() {
		if f.ID == from {
			out.RTT = p.rtt(f)
		}
	}
	return n.end(now, p, out, nil)
}

func (n *Node) end(now time.Time, p *placing, placed Placed, err error) []Send {
	placed.Hops, placed.Queries, placed.Offers, placed.Samples = p.hops(), len(p.asked), p.offers, p.samples
	n.events = append(n.events, Event{Req: p.req, Placed: placed, Goal: p.at, Found: p.ranked(), Err: err})
	delete(n.places, p.req)
	return nil
}
