package overlay

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/channel"
	"shoal/coords"
)

// located is what a judge keeps of a host.
type located struct {
	name     string
	at       coords.Coord
	known    bool // where it is; else any peer is as good
	fitted   time.Time
	ranked   time.Time // when near was found
	joined   int       // peers that had come by then
	stale    bool      // something new is known of it
	asked    bool      // it was measured, or that was tried
	busy     bool      // it is being measured
	wanted   uint32    // the last round in which its task waited
	named    uint32    // how often a peer near it was named
	timed    []candidate
	near     []candidate
	all      bool       // near has all peers
	distance [2]float64 // within which a quarter and half of the peers are, ms
}

// candidate is a peer at a distance from a host.
type candidate struct {
	slot  int32
	life  uint32
	ms    float64 // as far as it counts (see away)
	timed bool    // it measured the host
	when  int64   // it did so last, in seconds
}

// Knows says whether a judge knows where a host is, or that nothing is known of it. If not, it wants to be told by Locate before Near is asked.
func (j *Judge) Knows(now time.Time, host channel.HostKey) bool {
	if len(j.takers) == 0 || len(j.takers) <= nearLeast && j.cfg.Vantages == 0 {
		return true // nothing would come of it
	}
	h := j.hosts[host]
	return h != nil && !h.stale && now.Sub(h.fitted).Abs() < refitAfter
}

// Learn says that something new is known of a host. Until Locate brings it, the host is not known.
func (j *Judge) Learn(host channel.HostKey) {
	if h := j.hosts[host]; h != nil {
		h.stale = true
	}
}

// Locate says what was measured of a host. An empty name is of a host that cannot be measured.
func (j *Judge) Locate(now time.Time, host channel.HostKey, name string, r coords.HostRecord) {
	h := j.hosts[host]
	if h == nil {
		h = j.keep(host)
	}
	if !r.Valid() {
		r = coords.HostRecord{}
	}
	h.name, h.fitted, h.stale = name, now, false
	there := r.Moved(func(v string) (coords.Coord, bool) {
		if k, ok := j.slotOf[ID(v)]; ok {
			return j.index.at[k], true
		}
		return coords.Coord{}, false
	})
	if len(r.Samples) > believeWitnesses {
		there.Samples = slices.Clone(there.Samples)
		believe(there.Samples)
	}
	h.known = false
	if !r.Anycast {
		// A host is fitted the same way by all that fit it.
		h.at, h.known = target(&there, rand.New(rand.NewPCG(uint64(host), 1)))
	}
	h.timed = h.timed[:0]
	for i := range there.Samples {
		s := &there.Samples[i]
		if k, ok := j.slotOf[ID(s.Vantage)]; ok {
			h.timed = append(h.timed, candidate{k, j.slots[k].life, milliseconds(s.RTT), true, s.When})
		}
	}
	slices.SortFunc(h.timed, func(a, b candidate) int { return compare(a.ms, b.ms, a.slot, b.slot) })
	if len(r.Samples) > 0 {
		h.asked = true
	}
	if h.known && len(j.takers) > 0 {
		j.rank(now, h)
	}
}

// keep makes room for a host, in place of the one that has been there longest.
func (j *Judge) keep(host channel.HostKey) *located {
	h := &located{}
	if len(j.order) < maxHosts {
		j.order = append(j.order, host)
	} else {
		delete(j.hosts, j.order[j.next])
		j.order[j.next] = host
		j.next = (j.next + 1) % maxHosts
	}
	j.hosts[host] = h
	return h
}

// rank finds a host's nearest peers, and how far near is.
func (j *Judge) rank(now time.Time, h *located) {
	h.ranked, h.joined = now, j.joined
	h.timed = slices.DeleteFunc(h.timed, func(c candidate) bool { return j.slots[c.slot].life != c.life || j.slots[c.slot].rec == nil })
	h.near = append(h.near[:0], h.timed...)
	var room [candidates]far
	for _, f := range j.index.nearest(&search{at: &h.at, n: candidates, limit: math.MaxFloat64, mark: absent, pass: j.timedBy(h), best: room[:0]}) {
		h.near = append(h.near, candidate{int32(f.i), j.slots[f.i].life, f.ms + penalty, false, 0})
	}
	slices.SortFunc(h.near, func(a, b candidate) int { return compare(a.ms, b.ms, a.slot, b.slot) })
	h.all = len(h.near) == len(j.takers)
	h.near = h.near[:min(len(h.near), candidates)]
	j.spread(h)
}

// reach is how far from a host a peer is near to it, ms. It is measured from the nearest peer for which a task may wait.
func (j *Judge) reach(h *located) float64 {
	nearest := h.near[len(h.near)-1].ms
	for _, c := range h.near {
		if s := &j.slots[c.slot]; s.rec != nil && s.life == c.life && j.awaited(c.slot) {
			nearest = c.ms
			break
		}
	}
	switch {
	case len(j.takers) <= nearLeast:
		return math.MaxFloat64
	case int(NearShare*float64(len(j.takers))) < 1:
		return nearest
	}
	return max(min(nearest*nearFactor+nearSlack, h.distance[0]), nearest)
}

// awaited reports whether a task may wait for a peer that is full: not for one that is avoided, refused one, or has its share of the tasks; nor for one that has
// delivered nothing yet, once half of the peers have.
func (j *Judge) awaited(k int32) bool {
	switch s := &j.slots[k]; {
	case s.stands == avoided || s.full:
		return !j.trusted
	case s.stands == usual:
	default:
		if 2*j.proven >= len(j.takers) {
			return false
		}
	}
	return !j.passes(k)
}

// penalty is what a peer counts as farther than predicted if it has not measured the host: the least of many predictions is mostly too short.
const penalty = float64(unmeasured) / float64(time.Millisecond)

// timedBy says which peers have measured a host.
func (j *Judge) timedBy(h *located) func(k int) bool {
	return func(k int) bool { return j.timed(h, int32(k)) >= 0 }
}

func (j *Judge) timed(h *located, k int32) int {
	return slices.IndexFunc(h.timed, func(c candidate) bool { return c.slot == k && c.life == j.slots[k].life })
}

// away is how far a peer counts from a host, in ms.
func (j *Judge) away(h *located, k int32) float64 {
	if i := j.timed(h, k); i >= 0 {
		return h.timed[i].ms
	}
	return coords.Distance(&h.at, &j.index.at[k]) + penalty
}

// spread takes the distances within which the shares of all peers are, from some of them drawn at random where they are many.
func (j *Judge) spread(h *located) {
	var room [quantileOf]float64
	ms, n := room[:0], len(j.takers)
	for i := range min(n, quantileOf) {
		if n <= quantileOf {
			ms = append(ms, j.away(h, j.takers[i]))
		} else {
			ms = append(ms, coords.Distance(&h.at, &j.index.at[j.takers[j.rng.IntN(n)]])+penalty)
		}
	}
	slices.Sort(ms)
	for i, share := range [...]float64{NearShare, 2 * NearShare} {
		h.distance[i] = ms[max(int(share*float64(len(ms))), 1)-1]
	}
}

func compare(a, b float64, i, k int32) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return int(i - k)
}
