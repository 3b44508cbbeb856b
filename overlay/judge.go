package overlay

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"shoal/channel"
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
// waited (Ask.Share) may go farther, to a peer with a free thread that still had room when all that was due had been looked at (Looked).
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
	running int    // tasks that they run at once
	idle    int    // of these threads, those without a task of ours
	held    int    // tasks that they have
	astray  map[ID]int
	trusted bool // not all peers are to be avoided, or full
	proven  int  // peers of usual standing
	threads int  // of the peers that are not avoided, as far as they count
	able    int  // tasks that they can run
	groups  map[string]*together
	not     int32         // the slot of Ask.Not while Near runs; absent: there is none
	may     func(ID) bool // Ask.May while Near runs

	// Tasks that wait, by the hosts that a peer was asked for in vain: in this round of looking at what is due, and in the one before.
	round uint32
	wants [2]int32
	ended recent    // tasks of all peers
	now   time.Time // of the last call of Near
	late  int       // tasks that ended of late, then

	// Hosts.
	hosts   map[channel.HostKey]*located
	order   []channel.HostKey // of hosts, oldest first from next on
	next    int
	surveys []Survey
	ahead   int // hosts being measured, or waiting for that in surveys

	large time.Time // when Farther named one of the tasks last that press and are not small
}

// JudgeConfig is how a judge decides.
type JudgeConfig struct {
	// Vantages is how many peers measure a host that was never measured, before its first task. Zero: none, and no host is measured.
	Vantages int
	// Probes is how many more measure it, while its task goes, where a peer that has not seems to be nearer than all that have.
	Probes int
	// Small is how long small tasks that press wait for peers near their hosts, after the last other one went. Zero: they do not.
	Small time.Duration
}

// Ask is a task for which a peer is wanted.
type Ask struct {
	Host channel.HostKey
	// Share is the share of all peers, the nearest first, of which one will do. It is NearShare at first, and grows to 1 while the task waits.
	Share float64
	// Pages and Gap are the task's, for its expected finish: how many pages, and the wait before each. Zero: one page, and no wait.
	Pages int
	Gap   time.Duration
	// Not is a peer whose word about the host another is to confirm: the task goes to a peer of another account and network, if there is one. Empty: none.
	Not ID
	// Pressing says that Farther may give the task any room.
	Pressing bool
	// Usual is how many pages a task has on average; zero: that is not known. Of tasks that press Farther sends smaller ones no farther than near, for
	// JudgeConfig.Small. Since is when the task was asked for first.
	Usual float64
	Since time.Time
	// Only, if set, is the peer that Farther has named: the task goes there, or nowhere.
	Only ID
	// Spare says that nothing is lost if the task does not go: it is for a near peer with a free thread, or for none.
	Spare bool
	// May says of a peer whether it may have the task at all. Rather says whether it should, if another peer is about as near: see suited.
	// Nil: every peer. They are asked of few peers, and only while Near runs. Surely has the task go to one that should, however far it is, if there is any; it needs Rather.
	May, Rather func(ID) bool
	Surely      bool
	// Anywhere has the task go to a peer drawn from all, and not to one near the host.
	Anywhere bool
}

// SmallTicks is JudgeConfig.Small in ticks of the scheduler, where there is one.
const SmallTicks = 60

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

// Survey is a host that should be measured now.
type Survey struct {
	Host channel.HostKey
	Name string
	N    int // peers that measure it first
	By   ID  // the only one that measures it, if set
}

// The parameters of nearness.
const (
	nearFactor   = 1.3
	nearSlack    = 10. // ms
	otherFactor  = 1.2 // a peer that should have a task has it if it is at most so many times and otherSlack farther than the best one,
	otherSlack   = 2.  // ms,
	otherNear    = 8.  // or no farther than this, ms: about the median of all tasks, below which a few milliseconds more are little;
	farOther     = 20  // and each such time anywhere near, so that no peer that is nearer than all others has a host to itself
	nearLeast    = 2   // with so few peers there is no choice worth waiting for
	candidates   = 16  // peers that are kept for each host
	quantileOf   = 64  // peers of whom the distance is taken that a share of all lies within
	refitAfter   = 5 * time.Minute
	rankAfter    = 30 * time.Second // after which a host's nearest peers are found anew: peers move
	newcomers    = 16               // they are too when more than this part of the peers is new
	maxHosts     = 1 << 15          // hosts that are kept
	smallOf      = 1.2              // so many times the pages of a small task are fewer than is usual
	maxSurveys   = 256              // hosts measured at a time
	firstRound   = 2                // so that no host was asked for in the round of number 0 or the one before
	again        = 16               // each such task of a host, a peer near it measures it once more
	surveysShare = 14               // measurements that each peer is asked for at a time
	heldShare    = 5                // of this part of its queue a peer is given tasks; a full queue leaves no choice
)

// ErrJudge says that a JudgeConfig cannot be used.
var ErrJudge = errors.New("overlay: bad configuration of a judge")

// NewJudge makes a judge without peers. See hands it the first ones.
func NewJudge(cfg JudgeConfig, rng *rand.Rand) (*Judge, error) {
	if cfg.Vantages < 0 || cfg.Probes < 0 || cfg.Vantages > MaxNear || cfg.Probes > MaxNear || cfg.Small < 0 {
		return nil, fmt.Errorf("%w: %d vantages, %d probes: want 0 to %d; small tasks wait %v: want 0 or more", ErrJudge, cfg.Vantages, cfg.Probes, MaxNear, cfg.Small)
	}
	return &Judge{cfg: cfg, rng: rng, round: firstRound, view: &View{}, slotOf: map[ID]int32{}, groups: map[string]*together{}, astray: map[ID]int{}, hosts: map[channel.HostKey]*located{}}, nil
}

// Near names the peer for a task. It must know the host (Knows).
func (j *Judge) Near(now time.Time, a Ask) (Named, Verdict) {
	if len(j.takers) == 0 {
		return Named{}, Go
	}
	j.weigh(now, &a)
	h := j.hosts[a.Host]
	if h == nil {
		h = &located{asked: true}
	}
	if !h.asked && h.name != "" && j.cfg.Vantages > 0 {
		j.survey(a.Host, h, Survey{N: j.cfg.Vantages})
		j.want(h, true)
		return Named{}, Unmeasured
	}
	if !h.known || a.Anywhere {
		named := j.anywhere(a)
		if a.Spare && named.Peer == "" {
			return Named{}, Full
		}
		j.want(h, false)
		return named, Go
	}
	if now.Sub(h.ranked).Abs() >= rankAfter || (j.joined-h.joined)*newcomers > len(j.takers) {
		j.rank(now, h)
	}
	limit := j.reach(h)
	if a.Surely {
		if other, ok := j.other(&a, h); ok {
			limit = max(limit, other)
		} else if named := j.anywhere(a); named.Peer != "" && a.Rather(named.Peer) {
			return named, Go
		} else {
			a.Surely = false
		}
	}
	c, ok := j.choose(&a, h, limit)
	if !a.Spare {
		j.want(h, !ok && len(j.takers) > nearLeast)
	}
	switch {
	case ok:
	case len(j.takers) <= nearLeast && !a.Spare:
		return Named{}, Go
	default:
		return Named{}, Full
	}
	if !h.near[0].timed && h.name != "" && j.cfg.Vantages > 0 && j.cfg.Probes > 0 { // a peer seems to be nearer than all that have measured it
		j.survey(a.Host, h, Survey{N: j.cfg.Probes}) // the next task's choice is better for it
	}
	if h.named++; h.named%again == 0 {
		j.surveyAgain(a.Host, h, c.slot)
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

// anywhere names a peer for a host that is near to all, that cannot be placed, or whose tasks are to go anywhere: of some with room the one that would
// start first, but rather one that should have the task.
func (j *Judge) anywhere(a Ask) Named {
	best, least, suits := int32(absent), time.Duration(0), false
	for range draws * draws {
		k := j.takers[j.rng.IntN(len(j.takers))]
		if !j.index.marked(int(k), withRoom) || j.passes(k) || j.bars(k) || a.Spare && !j.slots[k].free() {
			continue
		}
		d, rather := j.start(&j.slots[k], service(a.Pages, a.Gap, 0)), a.Rather == nil || a.Rather(j.slots[k].rec.ID)
		if best == absent || rather && !suits || rather == suits && d < least {
			best, least, suits = k, d, rather
		}
	}
	if best == absent {
		return Named{}
	}
	return Named{Peer: j.slots[best].rec.ID}
}

// choose finds the peer for a host whose place is known; limit is how far off a near one is.
func (j *Judge) choose(a *Ask, h *located, limit float64) (candidate, bool) {
	if a.Only != "" {
		return j.named(a.Only, h)
	}
	if c, ok := j.suited(a, h, limit); ok {
		return c, true
	}
	mark := withRoom
	if a.Spare {
		mark = withSpare
	}
	if !a.Surely && !h.all && h.near[len(h.near)-1].ms <= limit {
		if c, ok := j.nearestWith(h, mark, limit); ok {
			return c, true
		}
	}
	if a.Spare || a.Share <= NearShare {
		return candidate{}, false
	}
	within := math.MaxFloat64
	if a.Share < 1 {
		within = h.distance[1]
	}
	return j.nearestWith(h, withSpare, within)
}

// named is the peer that Farther has named, if it still has room.
func (j *Judge) named(id ID, h *located) (candidate, bool) {
	k, ok := j.slotOf[id]
	if !ok || !j.index.marked(int(k), withRoom) || j.passes(k) || j.bars(k) {
		return candidate{}, false
	}
	return candidate{k, j.slots[k].life, j.away(h, k), j.timed(h, k) >= 0, 0}, true
}

// suited is the candidate near a host that is best for a task, of those that may and should have it, or else that may. For being one that should a peer may be
// hardly farther than the best, which would raise the round-trip times of all tasks; but now and then it may be any near one.
func (j *Judge) suited(a *Ask, h *located, limit float64) (candidate, bool) {
	c, ok := j.first(a, h, limit, nil)
	if !ok {
		return c, false
	}
	id := j.slots[c.slot].rec.ID
	may := a.May == nil || a.May(id)
	if may && (a.Rather == nil || a.Rather(id)) {
		return c, true // nearly always, so that few peers are asked about
	}
	if a.Rather != nil {
		if may && !a.Surely {
			limit = min(limit, OtherReach(c.ms, j.rng))
		}
		if other, found := j.first(a, h, limit, func(id ID) bool { return a.Rather(id) && (a.May == nil || a.May(id)) }); found {
			return other, true
		}
		if a.Surely {
			return candidate{}, false
		}
	}
	if may {
		return c, true
	}
	return j.first(a, h, limit, a.May)
}

// other is how far from a host the nearest peers are that should have a task, of those that are known to be nearest to the host; with room or without.
func (j *Judge) other(a *Ask, h *located) (limit float64, ok bool) {
	for _, c := range h.near {
		if s := &j.slots[c.slot]; s.rec != nil && s.life == c.life && !j.bars(c.slot) && a.Rather(s.rec.ID) {
			return c.ms*nearFactor + nearSlack, true
		}
	}
	return 0, false
}

// OtherReach is how far from a host a peer may be, in ms, that has a task since the best one, which is ms away, should not have it. Now and then any near one may.
func OtherReach(ms float64, rng *rand.Rand) float64 {
	if rng.IntN(farOther) == 0 {
		return math.MaxFloat64
	}
	return max(ms*otherFactor+otherSlack, otherNear)
}

// first is the candidate near a host that would finish first; of those that are about as good one drawn at random, so that no peer can make
// sure of a host's tasks by being a little nearer than all others. Where some of these have measured the host it is one of them. only leaves peers
// out; nil: none.
func (j *Judge) first(a *Ask, h *located, limit float64, only func(ID) bool) (candidate, bool) {
	var all [candidates]candidate
	var ends [candidates]time.Duration
	n, best := 0, 0
	for _, c := range h.near {
		s := &j.slots[c.slot]
		if c.ms > limit {
			break
		}
		if s.rec == nil || s.life != c.life || !j.index.marked(int(c.slot), withRoom) || j.passes(c.slot) || a.Spare && !s.free() || only != nil && !only(s.rec.ID) {
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
	skips := func(k int32) bool { return j.passes(k) || j.bars(k) }
	best, ok := candidate{}, false
	for _, c := range h.timed {
		s := &j.slots[c.slot]
		if c.ms <= within && s.rec != nil && s.life == c.life && j.index.marked(int(c.slot), mark) && !skips(c.slot) {
			best, ok = c, true
			break
		}
	}
	limit := within - penalty
	if ok {
		limit = min(limit, best.ms-penalty)
	}
	var room [1]far
	if f := j.index.nearest(&search{at: &h.at, n: 1, limit: limit, mark: mark, pass: func(k int) bool { return j.timed(h, int32(k)) >= 0 || skips(int32(k)) }, best: room[:0]}); len(f) > 0 {
		return candidate{int32(f[0].i), j.slots[f[0].i].life, f[0].ms + penalty, false, 0}, true
	}
	return best, ok
}

// Farther says which of some tasks that have waited long loses least by going to a peer that may have it, and to which: a task that presses to one with room, and
// these tasks come first; another one to one with a free thread that nothing near it wants. What a task loses is how much farther that peer is than the
// nearest, for each of its pages: it keeps the thread for as long as it has pages, so that few tasks go far where large ones do. A task that presses and is
// smaller than usual waits for peers near its host, as it would relieve them of little work: at the end of a first pass hardly anything else is left, and
// all of it would go far. False: there is none.
func (j *Judge) Farther(now time.Time, tasks []Ask) (task int, p ID, ok bool) {
	least := math.Inf(1)
	for i := range tasks {
		a, h := &tasks[i], j.hosts[tasks[i].Host]
		first := !ok || a.Pressing && !tasks[task].Pressing
		if h == nil || !h.known || len(h.near) == 0 || !first && tasks[task].Pressing && !a.Pressing {
			continue
		}
		j.weigh(now, a)
		mark := withSpare
		if a.Pressing {
			mark = withRoom
		}
		c, found := j.nearestWith(h, mark, j.goesTo(now, a, h))
		if more := (c.ms - h.near[0].ms) / float64(max(a.Pages, 1)); found && (first || more < least) {
			task, p, least, ok = i, j.slots[c.slot].rec.ID, more, true
		}
	}
	if ok && tasks[task].Pressing && !tasks[task].small() {
		j.large = now
	}
	return task, p, ok
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// small says whether a task has clearly fewer pages than usual.
func (a *Ask) small() bool { return smallOf*float64(a.Pages) < a.Usual }

// goesTo is how far from a host Farther sends a task: anywhere; but a small one that presses no farther than near, where a peer is that may have it.
func (j *Judge) goesTo(now time.Time, a *Ask, h *located) float64 {
	if !a.Pressing || !a.small() || now.Sub(latest(a.Since, j.large)) >= j.cfg.Small {
		return math.MaxFloat64
	}
	limit := j.reach(h)
	for _, c := range h.near {
		if s := &j.slots[c.slot]; c.ms <= limit && s.rec != nil && s.life == c.life && j.awaited(c.slot) && !j.bars(c.slot) {
			return limit
		}
	}
	return math.MaxFloat64
}

// surveyAgain has a peer near a host measure it: by turns one that has not, and the one whose measurement is the oldest, so that a peer which never answers does
// not keep others from it. What a busy computer once measured would keep it from the host's tasks, and only they measure the host anew. taker has the task now.
func (j *Judge) surveyAgain(key channel.HostKey, h *located, taker int32) {
	if h.name == "" || j.cfg.Vantages == 0 || j.cfg.Probes == 0 {
		return
	}
	var by, never *candidate
	for i := range h.near {
		c := &h.near[i]
		if s := &j.slots[c.slot]; c.slot == taker || s.rec == nil || s.life != c.life {
			continue
		}
		switch {
		case !c.timed && never == nil:
			never = c
		case c.timed && (by == nil || c.when < by.when):
			by = c
		}
	}
	if by == nil || never != nil && h.named/again%2 == 1 {
		by = never
	}
	if by != nil {
		j.survey(key, h, Survey{N: 1, By: j.slots[by.slot].rec.ID})
	}
}

// survey has a host measured, unless it is, or as many are as may be at a time.
func (j *Judge) survey(key channel.HostKey, h *located, s Survey) {
	most := min(max(len(j.takers)*surveysShare/max(j.cfg.Vantages, 1), 1), maxSurveys)
	if h.busy || j.ahead >= most {
		return
	}
	j.ahead++
	h.busy = true
	s.Host, s.Name = key, h.name
	j.surveys = append(j.surveys, s)
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
