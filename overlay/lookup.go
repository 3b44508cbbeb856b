package overlay

import (
	"math/rand/v2"
	"slices"
	"time"

	"shoal/coords"
)

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

// vantages takes a host's best vantages into the beam: a peer that measured the host from near is a good start and a
// good end. It returns a few of those that the table does not hold. Their ids are known, and mostly a way to them.
// They become candidates when they send their records.
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

// search asks the nearest peers that were not asked yet, alpha at a time, until the beam has no new ones.
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
				break // the nearest have been asked, and know no nearer ones
			}
			if p.busy >= most || len(p.asked) >= maxAsked {
				break
			} else if p.asked[r.ID] {
				continue
			}
			out = append(out, n.query(now, p, r, finding))
			if _, timed := p.seen[r.ID]; p.heard && !timed && r.Load.Threads > 0 && p.probes < min(earlyProbes, n.cfg.Probes) && p.measures() {
				out = append(out, n.time(now, p, r)) // at once, since it is as near as any found so far: that saves waiting in the end
			}
		}
		for _, r := range p.second {
			if !p.asked[r.ID] && r.ID != n.cfg.ID {
				out = append(out, n.query(now, p, r, glancing))
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

func (n *Node) query(now time.Time, p *placing, r PeerRecord, k kind) Send {
	p.asked[r.ID] = true
	if k == finding {
		p.busy++
	}
	s := n.ask(now, r, p.req, k, func(req uint64) Msg { return FindNear{Req: req, At: p.at, N: n.cfg.Beam} })
	if r.Coord.Valid() { // else only its id is known
		n.expect(now, coords.Predict(n.coord, r.Coord))
	}
	return s
}

func (n *Node) onNear(now time.Time, from ID, m Near) []Send {
	if len(m.Records) > MaxNear {
		return n.refuse("too many records")
	}
	r := n.take(now, from, m.Req)
	if r == nil {
		return nil
	}
	if r.kind != finding && r.kind != glancing { // the answer to another question
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

// ranked returns those found, the late ones after the others.
func (p *placing) ranked() []PeerRecord {
	if len(p.late) == 0 {
		return p.found
	}
	out := make([]PeerRecord, 0, len(p.found))
	for _, last := range []bool{false, true} {
		for _, f := range p.found {
			if p.late[f.ID] == last {
				out = append(out, f)
			}
		}
	}
	return out
}
