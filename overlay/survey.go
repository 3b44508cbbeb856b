package overlay

import (
	"fmt"
	"math"
	"time"

	"shoal/coords"
)

// survey is a Web host that peers measure, before a task for it is handed out. A host of which nothing is known is measured by some peers at
// random, then in up to NearRounds rounds by those that are probably nearest to it, until one is as near as NearEnough; the last round is of
// Config.Probes peers. A host that was measured before is measured by one round of those that are probably nearest.
type survey struct {
	req     uint64
	host    string
	record  coords.HostRecord
	samples []coords.Sample // new ones
	count   int             // peers of the first round
	rounds  int             // that are left
	waiting int             // answers of this round that are waited for
	tried   map[ID]bool
	by      ID // the only one to measure; empty: any
}

// The parameters of surveys.
const (
	MaxSurveys     = maxSurveys      // of one node at a time
	surveyPatience = 2 * time.Second // after which a round goes on without an answer
	surveyPool     = 512             // known peers of which a round's are chosen: half of them the nearest, half random
)

// Survey has peers measure the round-trip time to a Web host. The samples are an Event with the same req; Err wraps
// ErrRefused where no peer is known that could measure. The host may have been measured before.
func (n *Node) Survey(now time.Time, req uint64, of Survey, r coords.HostRecord) []Send {
	if len(n.surveys) >= MaxSurveys || of.Name == "" || of.N < 1 {
		n.events = append(n.events, Event{Req: req, Err: ErrBusy})
		return nil
	}
	if !r.Valid() {
		n.counts["refused: malformed host record"]++
		r = coords.HostRecord{}
	}
	s := &survey{req: req, host: of.Name, by: of.By, record: r.Moved(n.table.whereIs), count: min(of.N, MaxNear), rounds: 1, tried: map[ID]bool{}}
	if len(r.Samples) == 0 && of.By == "" {
		s.rounds += NearRounds + 1
	}
	n.surveys[req] = s
	n.counts["survey"]++
	return n.surveyOn(now, s)
}

// surveyOn begins the next round of a survey, or ends it.
func (n *Node) surveyOn(now time.Time, s *survey) []Send {
	least := shortest(&s.record)
	if s.rounds == 0 || least != nil && least.RTT <= NearEnough && len(s.samples) > 0 || len(s.tried) > 0 && len(s.samples) == 0 {
		return n.surveyed(s, nil)
	}
	count := s.count
	switch {
	case len(s.samples) == 0 || s.by != "":
	case s.rounds > 1:
		count = min(count, NearProbes)
	default:
		count = n.cfg.Probes
	}
	s.rounds--
	var out []Send
	for _, p := range n.surveyors(s, count) {
		s.tried[p.ID] = true
		s.waiting++
		out = append(out, n.ask(now, p, s.req, surveying, func(req uint64) Msg { return ProbeHost{Req: req, Host: s.host} }))
		n.waitFor(wait{now.Add(surveyPatience), n.req}, n.pending[n.req])
	}
	switch {
	case len(out) > 0:
		return out
	case len(s.tried) == 0:
		return n.surveyed(s, fmt.Errorf("%w: no peer is known that could measure", ErrRefused))
	}
	return n.surveyed(s, nil)
}

// surveyors chooses who measures next.
func (n *Node) surveyors(s *survey, count int) []PeerRecord {
	t := &n.table
	var pool []*PeerRecord
	add := func(i int) {
		if r := t.entries[i].rec; r.Load.Threads > 0 && !s.tried[r.ID] && t.spots[i].since != silent {
			pool = append(pool, r)
		}
	}
	if s.by != "" {
		if i := t.find(s.by); i >= 0 {
			add(i)
		}
		return vantagesOf(&coords.HostRecord{}, pool, count, n.rng)
	}
	if len(t.entries) <= surveyPool {
		for i := range t.entries {
			add(i)
		}
		return vantagesOf(&s.record, pool, count, n.rng)
	}
	if at, ok := target(&s.record, n.rng); ok {
		for _, f := range t.index.nearest(&search{at: &at, n: surveyPool / 2, limit: math.MaxFloat64, mark: absent}) {
			add(f.i)
		}
	}
	near := make(map[ID]bool, len(pool))
	for _, r := range pool {
		near[r.ID] = true
	}
	for range surveyPool / 2 {
		if i := n.rng.IntN(len(t.entries)); !near[t.entries[i].id] {
			near[t.entries[i].id] = true
			add(i)
		}
	}
	return vantagesOf(&s.record, pool, count, n.rng)
}

// onSurveyed takes the answer of a peer that measured a host.
func (n *Node) onSurveyed(now time.Time, from ID, r *request, m Probed) []Send {
	n.table.answered(now, from)
	s, ok := n.surveys[r.place]
	if !ok {
		return nil
	}
	if sample := (coords.Sample{Vantage: string(from), At: m.At, RTT: m.RTT, When: now.Unix()}); m.RTT > 0 && s.record.Add(sample) {
		s.samples = append(s.samples, sample)
	}
	return n.surveyWithout(now, r)
}

// surveyWithout goes on with a survey when an answer is waited for no more.
func (n *Node) surveyWithout(now time.Time, r *request) []Send {
	s, ok := n.surveys[r.place]
	if !ok || r.late {
		return nil
	}
	if s.waiting--; s.waiting > 0 {
		return nil
	}
	return n.surveyOn(now, s)
}

func (n *Node) surveyed(s *survey, err error) []Send {
	n.events = append(n.events, Event{Req: s.req, Placed: Placed{Samples: s.samples}, Err: err})
	delete(n.surveys, s.req)
	return nil
}

// whereIs is where a peer of the table is now.
func (t *table) whereIs(id string) (coords.Coord, bool) {
	if i := t.find(ID(id)); i >= 0 {
		return t.entries[i].rec.Coord, true
	}
	return coords.Coord{}, false
}
