package overlay

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/channel"
	"shoal/coords"
)

// Judge says which peer near a Web host has room for a task. The program that hands tasks out asks it, and nothing else decides that: a
// placing offers the task to the peer that the judge named before it looks for others (Node.PlaceAt).
//
// A judge knows three things. A View of a node's table says which peers there are, where they are, and how many tasks they take. Held says
// how many tasks of ours each peer has. Locate says what was measured of a host. The judge is pure, as the node is. It says which hosts
// should be measured (Surveys), and hears when that was done (Surveyed).
//
// A task goes to the peer near its host that would finish it first. A peer is near if it is one of the nearest quarter, and at most
// nearFactor times and nearSlack farther than the nearest of all. While all of these are full the task waits, and does not go at once to
// a far peer that happens to have room. That is delay scheduling (Zaharia and others, "Delay Scheduling", EuroSys 2010). A task that has
// waited (Ask.Share) may go farther, to a peer that still had room when all that was due had been looked at (Looked).
//
// An answer costs no more than the logarithm of the number of peers, in the mean. A host's nearest peers come from an index (index.go) and
// are kept, a few for each host, until something new is known of the host or refitAfter has passed. An answer goes through that list. Where
// all on it are full, the index finds the nearest peer with room; it passes regions over in which all are full.
type Judge struct {
	cfg JudgeConfig
	rng *rand.Rand

	// Peers that take tasks, by slot. A slot keeps its peer until the peer has left the view.
	view    *View
	slots   []slot
	slotOf  map[ID]int32
	free    []int32 // slots without a peer
	takers  []int32 // slots with a peer
	index   index
	turn    uint32 // views taken in
	joined  int    // peers that have come, ever
	holds   int    // tasks that the peers may have
	held    int    // tasks that they have
	astray  map[ID]int
	trusted bool // not all peers are to be avoided

	// Hosts.
	hosts   map[channel.HostKey]*located
	order   []channel.HostKey // of hosts, oldest first from next on
	next    int
	surveys []Survey
	ahead   int // hosts being measured, or waiting for that in surveys
}

// JudgeConfig is how a judge decides.
type JudgeConfig struct {
	// Vantages is how many peers measure a host that was never measured, before its first task. Zero: none, and no host is measured.
	Vantages int
	// Probes is how many more measure it, while its task goes, where a peer that has not seems to be nearer than all that have.
	Probes int
}

// Ask is a task for which a peer is wanted.
type Ask struct {
	Host channel.HostKey
	// Share is the share of all peers, the nearest first, of which one will do. It is NearShare at first, and grows to 1 while the task waits.
	Share float64
	// Pages and Gap are the task's, for its expected finish: how many pages, and the wait before each. Zero: one page, and no wait.
	Pages int
	Gap   time.Duration
}

// NearShare of all peers count as near a host.
const NearShare = .25

// Named is the peer that a judge has chosen for a task.
type Named struct {
	Peer   ID            // empty: any will do, a placing finds one
	RTT    time.Duration // to the host: measured, else predicted
	Random time.Duration // predicted, of a peer chosen at random
}

// Verdict is a judge's answer.
type Verdict uint8

// The verdicts.
const (
	Go         Verdict = iota + 1 // place the task now
	Full                          // the peers near the host have no room
	Unmeasured                    // the host is being measured, or will be as soon as there is room for that
)

// Survey is a host that should be measured now, with what is known of it.
type Survey struct {
	Host   channel.HostKey
	Name   string
	Record coords.HostRecord
	N      int // peers that measure it first
}

// The parameters of nearness.
const (
	nearFactor   = 1.3
	nearSlack    = 10. // ms
	nearLeast    = 2   // with so few peers there is no choice worth waiting for
	candidates   = 16  // peers that are kept for each host
	quantileOf   = 64  // peers of whom the distance is taken that a share of all lies within
	refitAfter   = 5 * time.Minute
	rankAfter    = 30 * time.Second // after which a host's nearest peers are found anew: peers move
	newcomers    = 16               // they are too when more than this part of the peers is new
	maxHosts     = 1 << 16          // hosts that are kept
	maxSurveys   = 256              // hosts measured at a time
	surveysShare = 14               // measurements that each peer is asked for at a time
	heldShare    = 5                // of this part of its queue a peer is given tasks; a full queue leaves no choice
)

// ErrJudge says that a JudgeConfig cannot be used.
var ErrJudge = errors.New("overlay: bad configuration of a judge")

// slot is a peer that takes tasks.
type slot struct {
	rec     *PeerRecord // of the view; nil: the slot is free
	life    uint32      // of the slot: it grows with every new peer
	turn    uint32      // of the last view that has the peer
	held    int32
	changed time.Time // when held changed
	avoid   bool
	spare   bool // it had room after the last look at all that was due
}

// located is what a judge keeps of a host.
type located struct {
	name     string
	record   coords.HostRecord // with the vantages where they are now
	at       coords.Coord
	known    bool // where it is; else any peer is as good
	fitted   time.Time
	ranked   time.Time // when near was found
	joined   int       // peers that had come by then
	stale    bool      // something new is known of it
	asked    bool      // it was measured, or that was tried
	busy     bool      // it is being measured
	timed    []candidate
	near     []candidate
	all      bool       // near has all peers
	distance [2]float64 // within which a quarter and half of the peers are, ms
	limit    float64    // within which a peer is near, ms
}

// candidate is a peer at a distance from a host.
type candidate struct {
	slot  int32
	life  uint32
	ms    float64 // as far as it counts (see away)
	timed bool    // it measured the host
}

// NewJudge makes a judge without peers. See hands it the first ones.
func NewJudge(cfg JudgeConfig, rng *rand.Rand) (*Judge, error) {
	if cfg.Vantages < 0 || cfg.Probes < 0 || cfg.Vantages > MaxNear || cfg.Probes > MaxNear {
		return nil, fmt.Errorf("%w: %d vantages, %d probes: want 0 to %d", ErrJudge, cfg.Vantages, cfg.Probes, MaxNear)
	}
	return &Judge{cfg: cfg, rng: rng, view: &View{}, slotOf: map[ID]int32{}, astray: map[ID]int{}, hosts: map[channel.HostKey]*located{}}, nil
}

// See takes the newest view in. One that was taken in already costs nothing.
func (j *Judge) See(v *View) {
	if v == j.view {
		return
	}
	j.view = v
	j.turn++
	j.takers = j.takers[:0]
	j.trusted = false
	for i := range v.Peers {
		p := &v.Peers[i]
		if p.Load.Threads == 0 {
			continue
		}
		k := j.slotFor(p)
		s := &j.slots[k]
		s.turn, s.rec, s.avoid = j.turn, p, v.avoid != nil && v.avoid[i]
		j.trusted = j.trusted || !s.avoid
		j.takers = append(j.takers, k)
	}
	j.holds, j.held = 0, 0
	for k := range j.slots {
		switch s := &j.slots[k]; {
		case s.rec == nil:
		case s.turn != j.turn:
			j.leave(int32(k))
		default:
			j.holds, j.held = j.holds+Holds(s.rec.Load), j.held+int(s.held)
			j.mark(int32(k))
		}
	}
}

// slotFor is the slot of a peer, with its place in the index.
func (j *Judge) slotFor(p *PeerRecord) int32 {
	if k, ok := j.slotOf[p.ID]; ok {
		if j.index.at[k] != p.Coord {
			j.index.put(int(k), &p.Coord)
		}
		return k
	}
	var k int32
	if n := len(j.free); n > 0 {
		k, j.free = j.free[n-1], j.free[:n-1]
	} else {
		k, j.slots = int32(len(j.slots)), append(j.slots, slot{})
	}
	j.slotOf[p.ID] = k
	j.joined++
	j.slots[k] = slot{life: j.slots[k].life + 1, held: int32(j.astray[p.ID])}
	delete(j.astray, p.ID)
	j.index.put(int(k), &p.Coord)
	return k
}

// leave frees the slot of a peer that is in the view no more. Its tasks are kept count of: it may come back.
func (j *Judge) leave(k int32) {
	s := &j.slots[k]
	delete(j.slotOf, s.rec.ID)
	if s.held > 0 {
		j.astray[s.rec.ID] = int(s.held)
	}
	j.index.drop(int(k))
	j.slots[k] = slot{life: s.life}
	j.free = append(j.free, k)
}

// mark tells the index whether a peer has room, and whether it had some when all had been looked at.
func (j *Judge) mark(k int32) {
	room := j.hasRoom(&j.slots[k])
	j.index.mark(int(k), withRoom, room)
	j.index.mark(int(k), withSpare, room && j.slots[k].spare)
}

// The marks of the index.
const (
	withRoom = iota
	withSpare
)

func (j *Judge) hasRoom(s *slot) bool {
	return int(s.held) < Holds(s.rec.Load) && !(s.avoid && j.trusted)
}

// Holds is how many tasks a peer is given at a time: as many as it has threads, and a fifth of its queue.
func Holds(l Load) int { return int(l.Threads) + int(l.Slots)/heldShare }

// Held says that a peer has n tasks of ours now, with those on their way to it.
func (j *Judge) Held(now time.Time, id ID, n int) {
	k, ok := j.slotOf[id]
	if !ok {
		if j.astray[id] = n; n <= 0 {
			delete(j.astray, id)
		}
		return
	}
	s := &j.slots[k]
	j.held += n - int(s.held)
	s.held, s.changed = int32(n), now
	j.mark(k)
}

// Capacity is how many peers take tasks, how many tasks they may have at a time, and how many of ours they have.
func (j *Judge) Capacity() (peers, holds, held int) { return len(j.takers), j.holds, j.held }

// Looked says that all that is due was looked at. A peer that still has room is wanted by nothing near it.
func (j *Judge) Looked() {
	for _, k := range j.takers {
		j.slots[k].spare = j.hasRoom(&j.slots[k])
		j.mark(k)
	}
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
	h.record = r.Moved(func(v string) (coords.Coord, bool) {
		if k, ok := j.slotOf[ID(v)]; ok {
			return j.index.at[k], true
		}
		return coords.Coord{}, false
	})
	h.known = false
	if !r.Anycast {
		// A host is fitted the same way by all that fit it.
		h.at, h.known = target(&h.record, rand.New(rand.NewPCG(uint64(host), 1)))
	}
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
	h.ranked, h.joined, h.timed, h.near = now, j.joined, h.timed[:0], h.near[:0]
	for i := range h.record.Samples {
		s := &h.record.Samples[i]
		if k, ok := j.slotOf[ID(s.Vantage)]; ok {
			h.timed = append(h.timed, candidate{k, j.slots[k].life, milliseconds(s.RTT), true})
		}
	}
	slices.SortFunc(h.timed, func(a, b candidate) int { return compare(a.ms, b.ms, a.slot, b.slot) })
	h.near = append(h.near, h.timed...)
	var room [candidates]far
	for _, f := range j.index.nearest(&search{at: &h.at, n: candidates, limit: math.MaxFloat64, mark: absent, pass: j.timedBy(h), best: room[:0]}) {
		h.near = append(h.near, candidate{int32(f.i), j.slots[f.i].life, f.ms + penalty, false})
	}
	slices.SortFunc(h.near, func(a, b candidate) int { return compare(a.ms, b.ms, a.slot, b.slot) })
	h.all = len(h.near) == len(j.takers)
	h.near = h.near[:min(len(h.near), candidates)]
	j.spread(h)
	switch nearest := h.near[0].ms; {
	case len(j.takers) <= nearLeast:
		h.limit = math.MaxFloat64
	case int(NearShare*float64(len(j.takers))) < 1:
		h.limit = nearest
	default:
		h.limit = max(min(nearest*nearFactor+nearSlack, h.distance[0]), nearest)
	}
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

// Near names the peer for a task. It must know the host (Knows).
func (j *Judge) Near(now time.Time, a Ask) (Named, Verdict) {
	if len(j.takers) == 0 {
		return Named{}, Go
	}
	h := j.hosts[a.Host]
	if h == nil {
		h = &located{asked: true}
	}
	if !h.asked && h.name != "" && j.cfg.Vantages > 0 {
		j.survey(a.Host, h, j.cfg.Vantages)
		return Named{}, Unmeasured
	}
	if !h.known {
		return j.anywhere(a), Go
	}
	if now.Sub(h.ranked).Abs() >= rankAfter || (j.joined-h.joined)*newcomers > len(j.takers) {
		j.rank(now, h)
	}
	c, ok := j.choose(&a, h)
	switch {
	case ok:
	case len(j.takers) <= nearLeast:
		return Named{}, Go
	default:
		return Named{}, Full
	}
	if !h.near[0].timed && h.name != "" && j.cfg.Vantages > 0 && j.cfg.Probes > 0 { // a peer seems to be nearer than all that have measured it
		j.survey(a.Host, h, j.cfg.Probes) // the next task's choice is better for it
	}
	random := j.away(h, j.takers[j.rng.IntN(len(j.takers))])
	return Named{Peer: j.slots[c.slot].rec.ID, RTT: duration(h.rtt(c)), Random: duration(random)}, Go
}

// rtt is the round-trip time of a candidate, without what it counts as farther.
func (h *located) rtt(c candidate) float64 {
	if c.timed {
		return c.ms
	}
	return c.ms - penalty
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// survey has a host measured, unless it is, or as many are as may be at a time.
func (j *Judge) survey(key channel.HostKey, h *located, n int) {
	most := min(max(len(j.takers)*surveysShare/max(j.cfg.Vantages, 1), 1), maxSurveys)
	if h.busy || j.ahead >= most {
		return
	}
	j.ahead++
	h.busy = true
	j.surveys = append(j.surveys, Survey{Host: key, Name: h.name, Record: h.record, N: n})
}

// Surveys are the hosts that should be measured, since the last call. Each is to be answered by Surveyed.
func (j *Judge) Surveys() []Survey {
	s := j.surveys
	j.surveys = nil
	return s
}

// Surveyed says that a host was measured, or cannot be. What came of it is told by Locate.
func (j *Judge) Surveyed(host channel.HostKey) {
	j.ahead--
	if h := j.hosts[host]; h != nil {
		h.busy, h.asked, h.stale = false, true, true
	}
}

// anywhere names a peer for a host that is near to all, or that cannot be placed: of some with room the one that would start first.
func (j *Judge) anywhere(a Ask) Named {
	best, least := int32(absent), time.Duration(0)
	for range draws * draws {
		k := j.takers[j.rng.IntN(len(j.takers))]
		if !j.index.marked(int(k), withRoom) {
			continue
		}
		if d := j.start(&j.slots[k], service(a.Pages, a.Gap, 0)); best == absent || d < least {
			best, least = k, d
		}
	}
	if best == absent {
		return Named{}
	}
	return Named{Peer: j.slots[best].rec.ID}
}

// choose finds the peer for a host whose place is known.
func (j *Judge) choose(a *Ask, h *located) (candidate, bool) {
	if c, ok := j.first(a, h); ok {
		return c, true
	}
	if !h.all && h.near[len(h.near)-1].ms <= h.limit {
		if c, ok := j.nearestWith(h, withRoom, h.limit); ok {
			return c, true
		}
	}
	if a.Share <= NearShare {
		return candidate{}, false
	}
	within := math.MaxFloat64
	if a.Share < 1 {
		within = h.distance[1]
	}
	return j.nearestWith(h, withSpare, within)
}

// first is the candidate near a host that would finish first; of those that are about as good one drawn at random, so that no peer can make
// sure of a host's tasks by being a little nearer than all others. Where some of these have measured the host it is one of them.
func (j *Judge) first(a *Ask, h *located) (candidate, bool) {
	var all [candidates]candidate
	var ends [candidates]time.Duration
	n, best := 0, 0
	for _, c := range h.near {
		s := &j.slots[c.slot]
		if c.ms > h.limit {
			break
		}
		if s.rec == nil || s.life != c.life || !j.index.marked(int(c.slot), withRoom) {
			continue
		}
		away := duration(c.ms)
		takes := service(a.Pages, a.Gap, away)
		start := j.start(s, takes)
		all[n], ends[n] = c, start+takes
		if ends[n] < ends[best] {
			best = n
		}
		n++
	}
	if n == 0 {
		return candidate{}, false
	}
	finish, away := ends[best], duration(all[best].ms)
	good, timed := all[:0], 0
	for i, c := range all[:n] {
		if !alike(ends[i]-finish, finish, duration(c.ms)-away, away) {
			continue
		}
		if good = append(good, c); c.timed { // those come first
			last := len(good) - 1
			good[last], good[timed] = good[timed], good[last]
			timed++
		}
	}
	if timed > 0 {
		good = good[:timed]
	}
	return good[j.rng.IntN(len(good))], true
}

// start is how long a task would wait at a peer. The peer's own word counts if it spoke since our count of its tasks changed.
func (j *Judge) start(s *slot, takes time.Duration) time.Duration {
	if s.rec.Issued.After(s.changed) {
		return s.rec.Load.Backlog
	}
	waiting := int(s.held) - int(s.rec.Load.Threads) + 1
	if waiting <= 0 {
		return 0
	}
	return max(s.rec.Load.Backlog, time.Duration(waiting)*takes/time.Duration(s.rec.Load.Threads))
}

// nearestWith is the nearest peer to a host with a mark, within a distance.
func (j *Judge) nearestWith(h *located, mark int, within float64) (candidate, bool) {
	best, ok := candidate{}, false
	for _, c := range h.timed {
		s := &j.slots[c.slot]
		if c.ms <= within && s.rec != nil && s.life == c.life && j.index.marked(int(c.slot), mark) {
			best, ok = c, true
			break
		}
	}
	limit := within - penalty
	if ok {
		limit = min(limit, best.ms-penalty)
	}
	var room [1]far
	if f := j.index.nearest(&search{at: &h.at, n: 1, limit: limit, mark: mark, pass: j.timedBy(h), best: room[:0]}); len(f) > 0 {
		return candidate{int32(f[0].i), j.slots[f[0].i].life, f[0].ms + penalty, false}, true
	}
	return best, ok
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
