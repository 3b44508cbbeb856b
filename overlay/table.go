package overlay

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/coords"
)

// entry is one peer of the table.
type entry struct {
	rec      PeerRecord
	failures int
}

// table holds the peers that a node knows: the nearest ones, and in each ring of round-trip times some at random.
type table struct {
	own     *coords.Coord
	expiry  time.Duration
	all     int // every peer is kept up to here; 0: MaxTable. A manager knows more than it needs for lookups
	entries []entry
	gone    []tombstone // of peers that failed, oldest first
}

// tombstone keeps a peer that failed from coming back by hearsay: only a record that it made since counts.
type tombstone struct {
	id  ID
	seq uint64
}

// maxGone bounds the tombstones, maxAhead how far a record may be dated in the future, since clocks differ.
const (
	maxGone  = 256
	maxAhead = 5 * time.Minute
)

// ringOf is the ring of a predicted round-trip time: log2 of milliseconds.
func ringOf(rtt time.Duration) int {
	ms := float64(rtt) / float64(time.Millisecond)
	if ms < 2 {
		return 0
	}
	return min(int(math.Log2(ms)), rings-1)
}

func (t *table) find(id ID) int {
	return slices.IndexFunc(t.entries, func(e entry) bool { return e.rec.ID == id })
}

// hear takes a record in; an older one than what is there counts as nothing heard.
func (t *table) hear(now time.Time, r PeerRecord, rng *rand.Rand) {
	r.Seen = now
	if t.expired(now, &r) || r.Issued.After(now.Add(maxAhead)) {
		return
	}
	if i := slices.IndexFunc(t.gone, func(g tombstone) bool { return g.id == r.ID }); i >= 0 {
		if r.Seq <= t.gone[i].seq {
			return
		}
		t.gone = slices.Delete(t.gone, i, i+1)
	}
	if i := t.find(r.ID); i >= 0 {
		if r.Seq >= t.entries[i].rec.Seq {
			newer := r.Seq > t.entries[i].rec.Seq
			t.entries[i].rec = r
			if newer {
				t.entries[i].failures = 0
			}
		}
		return
	}
	t.entries = append(t.entries, entry{rec: r})
	t.trim(rng)
}

// trim keeps the nearest and, in each ring, a random choice of the others.
func (t *table) trim(rng *rand.Rand) {
	limit := max(t.all, MaxTable)
	if len(t.entries) <= limit {
		return
	}
	order := make([]int, len(t.entries))
	for i := range order {
		order[i] = i
	}
	rtt := make([]time.Duration, len(t.entries))
	for i := range t.entries {
		rtt[i] = coords.Predict(*t.own, t.entries[i].rec.Coord)
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rtt[a], rtt[b]), cmp.Compare(t.entries[a].rec.ID, t.entries[b].rec.ID))
	})
	var ring [rings][]int
	for _, i := range order[min(nearestKept, len(order)):] {
		ring[ringOf(rtt[i])] = append(ring[ringOf(rtt[i])], i)
	}
	// One too many: it goes from the fullest ring, at random.
	fullest := 0
	for k := range ring {
		if len(ring[k]) > len(ring[fullest]) {
			fullest = k
		}
	}
	victim := ring[fullest][rng.IntN(len(ring[fullest]))]
	t.entries = slices.Delete(t.entries, victim, victim+1)
}

// fail notes that a peer did not answer; the second time in a row it leaves. It tells whether it left.
func (t *table) fail(id ID) bool {
	i := t.find(id)
	if i < 0 {
		return false
	}
	t.entries[i].failures++
	if t.entries[i].failures < maxFailures {
		return false
	}
	if len(t.gone) >= maxGone {
		t.gone = slices.Delete(t.gone, 0, len(t.gone)-maxGone+1)
	}
	t.gone = append(t.gone, tombstone{id, t.entries[i].rec.Seq})
	t.entries = slices.Delete(t.entries, i, i+1)
	return true
}

// expired tells a record that says nothing any more. It counts from when its peer made it, since hearsay keeps no peer alive.
func (t *table) expired(now time.Time, r *PeerRecord) bool {
	since := r.Issued
	if since.IsZero() { // an address of which nothing was heard yet
		since = r.Seen
	}
	return now.Sub(since) > t.expiry
}

func (t *table) answered(now time.Time, id ID) {
	if i := t.find(id); i >= 0 {
		t.entries[i].failures = 0
		t.entries[i].rec.Seen = now
	}
}

// expire drops what was not heard of for too long.
func (t *table) expire(now time.Time) {
	t.entries = slices.DeleteFunc(t.entries, func(e entry) bool { return t.expired(now, &e.rec) })
}

// near gives the n entries nearest to a coordinate, nearest first.
func (t *table) near(at coords.Coord, n int) []PeerRecord {
	type ranked struct {
		rtt float64
		rec *PeerRecord
	}
	all := make([]ranked, len(t.entries))
	for i := range t.entries {
		all[i] = ranked{coords.Distance(&at, &t.entries[i].rec.Coord), &t.entries[i].rec}
	}
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.rtt, b.rtt), cmp.Compare(a.rec.ID, b.rec.ID)) })
	out := make([]PeerRecord, min(n, len(all)))
	for i := range out {
		out[i] = *all[i].rec
	}
	return out
}

// nearest sorts records by predicted round-trip time to a coordinate and keeps the first n.
func nearest(at coords.Coord, recs []PeerRecord, n int) []PeerRecord {
	type ranked struct {
		rtt float64
		i   int
	}
	all := make([]ranked, len(recs))
	for i := range recs {
		all[i] = ranked{coords.Distance(&at, &recs[i].Coord), i}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rtt, b.rtt), cmp.Compare(recs[a.i].ID, recs[b.i].ID))
	})
	out := make([]PeerRecord, 0, min(n, len(all)))
	for _, r := range all[:min(n, len(all))] {
		out = append(out, recs[r.i])
	}
	return out
}

// some gives up to n entries at random.
func (t *table) some(n int, rng *rand.Rand) []PeerRecord {
	var out []PeerRecord
	for _, i := range rng.Perm(len(t.entries))[:min(n, len(t.entries))] {
		out = append(out, t.entries[i].rec)
	}
	return out
}
