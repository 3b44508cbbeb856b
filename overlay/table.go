package overlay

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shoal/coords"
)

// entry is one peer of the table.
type entry struct {
	rec      *PeerRecord // shared with messages and, in a simulation, with other nodes: never changed
	hash     uint32      // of its id
	failures uint8
	seen     time.Time // when this node last heard of it
	account  string    // of its certificate; empty: that was not seen
	prefix   string    // of its first address; empty: none that tells
	claimed  time.Time // when it last claimed a task of this node's
	back     time.Time // when it made a record after it had left a request unanswered; zero: it has not
}

// spot is where an entry is. Spots lie beside one another, since they are gone through with every message.
type spot struct {
	at    coords.Coord  // as in its record
	rtt   time.Duration // measured to it, the shortest; 0: not yet
	since int64         // from when its record counts, ns; silent: it left the last request unanswered
}

// table holds the peers that a node knows: the nearest ones, and in each ring of round-trip times some at random.
type table struct {
	own     *coords.Coord
	moved   bool // own has changed since ms was computed
	expiry  time.Duration
	oldest  time.Time // no record is older
	grouped bool      // some prefix or account was heard of
	all     int       // every peer is kept up to here; 0: MaxTable. A manager knows more than it needs for lookups
	entries []entry
	index   index
	spots   []spot    // of each entry
	ms      []float64 // of each entry, how far it is; negative: to be computed
	best    []ranked  // scratch of neighbour and nearest
	gone    []ID      // peers that failed, oldest first, with what they last said
	graves  map[ID]uint64
}

// A peer that failed does not come back by hearsay: only a record that it made since counts. maxGone bounds how many of them are remembered, maxAhead how far a record may be dated in the future, since clocks differ.
const (
	maxGone  = 256
	maxAhead = 5 * time.Minute
)

// ringAt is the ring of a predicted round-trip time: log2 of milliseconds.
func ringAt(ms float64) int {
	if ms < 2 {
		return 0
	}
	return min(bits.Len64(uint64(ms))-1, rings-1)
}

func newTable(own *coords.Coord, expiry time.Duration, all int) table {
	const full = MaxTable + MaxGossip + 1 // and what a message brings
	return table{own: own, expiry: expiry, all: all, graves: map[ID]uint64{},
		entries: make([]entry, 0, full), spots: make([]spot, 0, full), ms: make([]float64, 0, full)}
}

func (t *table) find(id ID) int { return t.index.find(t.entries, id, hashOf(id)) }

// remove takes an entry out; the last one takes its place.
func (t *table) remove(i int) {
	last := len(t.entries) - 1
	t.index.drop(t.entries[i].hash, i)
	if i != last {
		t.index.move(t.entries[last].hash, last, i)
		t.entries[i], t.spots[i], t.ms[i] = t.entries[last], t.spots[last], t.ms[last]
	}
	t.entries[last] = entry{}
	t.entries, t.spots, t.ms = t.entries[:last], t.spots[:last], t.ms[:last]
}

// hear takes a record in, and keeps it; an older one than what is there counts as nothing heard. Whoever calls it calls trim when a message's records are in: to choose
// who stays is most of what a message costs.
func (t *table) hear(now time.Time, r *PeerRecord) {
	if age := now.Sub(r.Issued); age < -maxAhead || age > t.expiry && !r.Issued.IsZero() {
		return
	}
	hash := hashOf(r.ID)
	if i := t.index.find(t.entries, r.ID, hash); i >= 0 {
		e := &t.entries[i]
		if e.rec == r && !r.Issued.IsZero() {
			e.seen = now
			return
		}
		if r.Seq < e.rec.Seq {
			return
		}
		if r.Seq > e.rec.Seq {
			if e.failures > 0 {
				e.back = now
			}
			e.failures = 0
			if !slices.Equal(r.Addrs, e.rec.Addrs) {
				e.prefix = prefixOf(r.Addrs)
			}
		}
		if t.spots[i].rtt == 0 && r.Coord != t.spots[i].at {
			t.ms[i] = -1
		}
		e.rec, e.seen, t.spots[i].at = r, now, r.Coord
		if r.Account != "" { // else it is hearsay
			e.account = r.Account
		}
		t.noted(i)
		return
	}
	var back time.Time
	if seq, ok := t.graves[r.ID]; ok {
		if r.Seq <= seq {
			return
		}
		back = now
		delete(t.graves, r.ID)
		t.gone = slices.DeleteFunc(t.gone, func(id ID) bool { return id == r.ID })
	}
	t.entries = append(t.entries, entry{rec: r, hash: hash, seen: now, account: r.Account, prefix: prefixOf(r.Addrs), back: back})
	t.spots, t.ms = append(t.spots, spot{at: r.Coord}), append(t.ms, -1)
	t.index.add(hash, len(t.entries))
	t.noted(len(t.entries) - 1)
}

// measured notes how far a peer really is.
func (t *table) measured(id ID, rtt time.Duration) {
	if i := t.find(id); i >= 0 && (t.spots[i].rtt == 0 || rtt < t.spots[i].rtt) {
		t.spots[i].rtt, t.ms[i] = rtt, milliseconds(rtt)
	}
}

// away is how far each entry is in milliseconds: as measured, else as predicted.
func (t *table) away() []float64 {
	for i := range t.spots {
		if s := &t.spots[i]; s.rtt == 0 && (t.moved || t.ms[i] < 0) {
			t.ms[i] = coords.Distance(t.own, &s.at)
		}
	}
	t.moved = false
	return t.ms
}

// trim keeps the nearest and, in each ring, a random choice of the others. Whoever is too much goes from where one address prefix or account has most of
// a ring, beyond its share; else from the fullest ring.
func (t *table) trim(rng *rand.Rand) {
	if t.all > MaxTable { // a manager's sample of all: rings would only tell where the manager is
		for len(t.entries) > t.all {
			t.remove(rng.IntN(len(t.entries)))
		}
		return
	}
	if len(t.entries) <= MaxTable {
		return
	}
	t.away()
	near := t.nearestOwn()
	var ring [MaxTable + MaxNear]int // of each entry; -1: one of the nearest, which stay
	var count [rings]int
	var room [MaxTable + MaxNear]int
	in := room[:0] // the entries of which one goes
	for i := range t.entries {
		if ring[i] = -1; !near[i] {
			ring[i] = ringAt(t.ms[i])
			count[ring[i]]++
		}
	}
	for len(t.entries) > MaxTable {
		var k, n int
		var g group
		if t.grouped {
			k, g, n = t.crowd(&ring)
		}
		if n == 0 {
			for i := range count {
				if count[i] > count[k] {
					k = i
				}
			}
			n = count[k]
		}
		in = in[:0]
		for i := range t.entries {
			if ring[i] == k && (g.name == "" || t.entries[i].of(g.kind) == g.name) {
				in = append(in, i)
			}
		}
		i := t.older(in[rng.IntN(n)], in[rng.IntN(n)])
		last := len(t.entries) - 1
		ring[i] = ring[last]
		t.remove(i)
		count[k]--
	}
}

// nearestOwn marks the nearest entries, of one prefix or account only nearShare as long as there are others. It reads ms. Where no prefix or account is known,
// only the nearest need to be in order.
func (t *table) nearestOwn() (near [MaxTable + MaxNear]bool) {
	var order [MaxTable + MaxNear]int
	var far [MaxTable + MaxNear]float64 // of each in order
	n, most := 0, len(t.entries)
	if !t.grouped {
		most = nearestKept
	}
	for i, ms := range t.ms {
		j := n
		if n == most {
			if j--; far[j] <= ms {
				continue
			}
			n--
		}
		for ; j > 0 && far[j-1] > ms; j-- {
			order[j], far[j] = order[j-1], far[j-1]
		}
		order[j], far[j] = i, ms
		n++
	}
	if !t.grouped {
		for _, i := range order[:n] {
			near[i] = true
		}
		return near
	}
	kept := 0
	for _, bounded := range []bool{true, false} {
		for k, i := range order[:n] {
			if kept == nearestKept {
				return near
			}
			if !near[i] && !(bounded && t.full(order[:k], &near, i)) {
				near[i] = true
				kept++
			}
		}
	}
	return near
}

// full says whether the prefix or account of entry i has its share of the near ones among some entries.
func (t *table) full(some []int, near *[MaxTable + MaxNear]bool, i int) bool {
	for kind := range kinds {
		name := t.entries[i].of(kind)
		if name == "" {
			continue
		}
		same := 0
		for _, j := range some {
			if near[j] && t.entries[j].of(kind) == name {
				same++
			}
		}
		if same >= nearShare {
			return true
		}
	}
	return false
}

// group is who may be one and the same behind many members: of kind 0 an address prefix, of kind 1 an account.
type group struct {
	kind int
	name string
}

const kinds = 2

// of is the name of an entry's group of a kind; empty: unknown.
func (e *entry) of(kind int) string {
	if kind == 0 {
		return e.prefix
	}
	return e.account
}

// crowd is the group that has the most of a ring, if that is more than its share, with the ring and how many it has; else none.
func (t *table) crowd(ring *[MaxTable + MaxNear]int) (k int, worst group, most int) {
	most = ringShare
	for kind := range kinds {
		for i := range t.entries {
			name := t.entries[i].of(kind)
			if name == "" || ring[i] < 0 {
				continue
			}
			n := 0
			for j := range t.entries {
				if ring[j] == ring[i] && t.entries[j].of(kind) == name {
					n++
				}
			}
			if n > most {
				k, worst, most = ring[i], group{kind, name}, n
			}
		}
	}
	if worst == (group{}) {
		most = 0
	}
	return k, worst, most
}

// Whoever runs many members from one place or account has at most so many of the nearest entries for certain, and of a full ring, as long as there are others.
const (
	nearShare = 4
	ringShare = 2
)

// prefixOf is the network of the first public address among a record's: the first three bytes of an IPv4 address, the first three groups of an
// IPv6 one. Addresses that are not public tell nothing.
func prefixOf(addrs []string) string {
	for _, a := range addrs {
		parts := strings.SplitN(a, "/", 4)
		if len(parts) < 3 || parts[1] != "ip4" && parts[1] != "ip6" {
			continue
		}
		ip, err := netip.ParseAddr(parts[2])
		if err != nil || !ip.IsGlobalUnicast() || ip.IsPrivate() {
			continue
		}
		bits := 24
		if ip.Is6() {
			bits = 48
		}
		if p, err := ip.Prefix(bits); err == nil {
			return p.String()
		}
	}
	return ""
}

// fail notes that a peer did not answer; the second time in a row it leaves. It tells whether it left.
func (t *table) fail(id ID) bool {
	i := t.find(id)
	if i < 0 {
		return false
	}
	t.entries[i].failures++
	t.spots[i].since = silent
	if t.entries[i].failures < maxFailures {
		return false
	}
	if len(t.gone) >= maxGone {
		delete(t.graves, t.gone[0])
		t.gone = slices.Delete(t.gone, 0, 1)
	}
	t.gone, t.graves[id] = append(t.gone, id), t.entries[i].rec.Seq
	t.remove(i)
	return true
}

// wasAway tells whether a peer may have been away since some time: it is now, or it has come back since a request was left unanswered.
func (t *table) wasAway(id ID, from time.Time) bool {
	if _, ok := t.graves[id]; ok {
		return true
	}
	i := t.find(id)
	return i >= 0 && t.entries[i].back.After(from)
}

// since is from when an entry's record counts: when its peer made it, since hearsay keeps no peer alive.
func (e *entry) since() time.Time {
	if e.rec.Issued.IsZero() { // an address of which nothing was heard yet
		return e.seen
	}
	return e.rec.Issued
}

// record is a copy of an entry's record, with what this node knows beside.
func (e *entry) record() PeerRecord {
	r := *e.rec
	r.Seen, r.Account = e.seen, e.account
	return r
}

// busy notes until when a peer's threads are busy, of which it tells with its next record.
func (e *entry) busy(backlog time.Duration) {
	r := *e.rec
	r.Load.Backlog = backlog
	e.rec = &r
}

// noted takes note of what an entry's record says.
func (t *table) noted(i int) {
	e := &t.entries[i]
	t.grouped = t.grouped || e.prefix != "" || e.account != ""
	if e.failures == 0 {
		t.spots[i].since = e.since().UnixNano()
	}
	t.ages(e)
}

// silent stands for a time before all others, so that who is silent is asked again soon, and stays or goes.
const silent = math.MinInt64

// ages notes that an entry is there whose record may be the oldest one.
func (t *table) ages(e *entry) {
	if at := e.since(); at.Before(t.oldest) {
		t.oldest = at
	}
}

func (t *table) answered(now time.Time, id ID) {
	if i := t.find(id); i >= 0 {
		e := &t.entries[i]
		e.failures, e.seen = 0, now
		t.spots[i].since = e.since().UnixNano()
	}
}

// expire drops records that say nothing any more.
func (t *table) expire(now time.Time) {
	if now.Sub(t.oldest) <= t.expiry {
		return
	}
	t.oldest = now
	for i := 0; i < len(t.entries); {
		if e := &t.entries[i]; now.Sub(e.since()) > t.expiry {
			t.remove(i)
		} else {
			t.ages(e)
			i++
		}
	}
}

// near gives the n entries nearest to a coordinate by prediction, nearest first; those that were silent only where there are too few.
func (t *table) near(at coords.Coord, n int) []PeerRecord {
	out := records(t.nearest(at, n))
	for i := 0; i < len(t.entries) && len(out) < n; i++ {
		if t.spots[i].since == silent {
			out = append(out, *t.entries[i].rec)
		}
	}
	return out
}

// nearest are the same without the copies and the silent, of whom nobody is told. It holds until it is called again.
func (t *table) nearest(at coords.Coord, n int) []ranked {
	best := t.best[:0]
	for i := range t.entries {
		if t.spots[i].since == silent {
			continue
		}
		if ms := coords.Distance(&at, &t.spots[i].at); len(best) < n || ms <= best[n-1].ms {
			best = rank(best, n, ranked{ms, t.entries[i].rec})
		}
	}
	t.best = best
	return best
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
	best := t.best[:0]
	for i, ms := range t.away() {
		if len(best) < nearestKept || ms <= best[nearestKept-1].ms {
			best = rank(best, nearestKept, ranked{ms, t.entries[i].rec})
		}
	}
	if t.best = best; len(best) == 0 {
		return nil
	}
	pick := func() int { return t.find(best[rng.IntN(len(best))].rec.ID) }
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
