package overlay

import (
	"math"
	"math/rand/v2"
	"slices"

	"shoal/coords"
)

// near gives the n entries nearest to a coordinate by prediction, nearest first; those that were silent only where there are too few.
func (t *table) near(at coords.Coord, n int) []PeerRecord {
	var out []PeerRecord
	for _, f := range t.nearest(&at, n) {
		out = append(out, *t.entries[f.i].rec)
	}
	for i := 0; i < len(t.entries) && len(out) < n; i++ {
		if t.spots[i].since == silent {
			out = append(out, *t.entries[i].rec)
		}
	}
	return out
}

// nearest returns the positions of the nearest entries without the silent ones, which are never passed on. The result
// is valid until the next call.
func (t *table) nearest(at *coords.Coord, n int) []far {
	if t.index != nil {
		t.best = t.index.nearest(&search{at: at, n: n, limit: math.MaxFloat64, mark: absent, best: t.best[:0],
			pass: func(i int) bool { return t.spots[i].since == silent }})
		return t.best
	}
	t.apart = t.apart[:0]
	for i := range t.spots {
		t.apart = append(t.apart, coords.Distance(at, &t.spots[i].at))
	}
	for i := range t.spots {
		if t.spots[i].since == silent {
			t.apart[i] = math.Inf(1)
		}
	}
	t.best = nearestOf(t.apart, t.best[:0], n, math.MaxFloat64)
	return t.best
}

// ranked is a record at a distance.
type ranked struct {
	ms  float64
	rec *PeerRecord
}

// rank puts a record among the n best, which are sorted; of two at one distance the id decides.
func rank(best []ranked, n int, r ranked) []ranked {
	if len(best) == n && (n == 0 || best[n-1].ms < r.ms) { // mostly
		return best
	}
	return insert(best, n, r)
}

func insert(best []ranked, n int, r ranked) []ranked {
	j := len(best)
	if j == n {
		if j--; !r.before(&best[j]) {
			return best
		}
	} else {
		best = append(best, r)
	}
	for ; j > 0 && r.before(&best[j-1]); j-- {
		best[j] = best[j-1]
	}
	best[j] = r
	return best
}

func (r *ranked) before(o *ranked) bool { return r.ms < o.ms || r.ms == o.ms && r.rec.ID < o.rec.ID }

func records(best []ranked) []PeerRecord {
	out := make([]PeerRecord, len(best))
	for i := range best {
		out[i] = *best[i].rec
	}
	return out
}

// nearest sorts records by predicted round-trip time to a coordinate and keeps the first n.
func nearest(at coords.Coord, recs []PeerRecord, n int) []PeerRecord {
	best := make([]ranked, 0, min(n, len(recs))+1)
	for i := range recs {
		best = rank(best, n, ranked{coords.Distance(&at, &recs[i].Coord), &recs[i]})
	}
	return records(best)
}

// some gives up to n entries at random, none twice.
func (t *table) some(n int, rng *rand.Rand) []PeerRecord {
	out := make([]PeerRecord, 0, min(n, len(t.entries)))
	if 3*n >= len(t.entries) {
		for _, i := range rng.Perm(len(t.entries))[:min(n, len(t.entries))] {
			out = append(out, t.entries[i].record())
		}
		return out
	}
	var taken [MaxNear]int
	for len(out) < min(n, MaxNear) {
		i := rng.IntN(len(t.entries))
		if !slices.Contains(taken[:len(out)], i) {
			taken[len(out)] = i
			out = append(out, t.entries[i].record())
		}
	}
	return out
}

// draws are how many entries are drawn, of which the one is taken that made its record first: it was asked less lately than the others.
const draws = 3

// anyone is an entry drawn at random; nil: there is none.
func (t *table) anyone(rng *rand.Rand) *PeerRecord {
	if len(t.entries) == 0 {
		return nil
	}
	i := rng.IntN(len(t.entries))
	for range draws - 1 {
		i = t.older(i, rng.IntN(len(t.entries)))
	}
	return t.entries[i].rec
}

// older is the one of two entries whose record is older. A record of an hour ago tells where a peer thought it was when it was young, or that a peer is there
// which has gone; to draw two and take the older one refreshes such, or drops them, long before chance would.
func (t *table) older(i, j int) int {
	if t.spots[j].since < t.spots[i].since {
		return j
	}
	return i
}

// neighbour is one of the nearest entries, drawn in the same way, or one that was not measured yet; nil: there is none.
func (t *table) neighbour(rng *rand.Rand) *PeerRecord {
	var room [nearestKept]far
	t.away()
	best := t.closest(room[:0])
	if len(best) == 0 {
		return nil
	}
	pick := func() int { return best[rng.IntN(len(best))].i }
	i := pick()
	for k := 1; k < draws && t.spots[i].rtt != 0; k++ {
		if j := pick(); t.spots[j].rtt == 0 {
			i = j
		} else {
			i = t.older(i, j)
		}
	}
	return t.entries[i].rec
}
