package overlay

import (
	"time"

	"shoal/coords"
)

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
	// A peer that answers early is near to the host, since the others are still measuring. So a few answers suffice.
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
	s := n.ask(now, r, p.req, timing, func(req uint64) Msg { return ProbeHost{Req: req, Host: p.task.Header.Host} })
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
	switch r.kind {
	case surveying:
		return n.onSurveyed(now, from, r, m)
	case timing:
	default: // the answer to another question
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
		p.seen[from] = believed(&s, p.record.Samples, nil)
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

// measuring is how long a candidate needs to measure the host that is worth being waited for: three connections to it, and its name may have to be looked up. Who
// needs longer than it would from where the nearest known so far is, is farther than that.
func (p *placing) measuring(r *PeerRecord) time.Duration {
	way := coords.Predict(r.Coord, p.at)
	if best := shortest(&p.record); best != nil {
		way = min(way, best.RTT)
	}
	return 3*way + naming
}

const naming = 50 * time.Millisecond
