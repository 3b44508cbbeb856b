package recrawlsim

import (
	"math"
	"slices"
	"strconv"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/haul"
	"shoal/internal/sim"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/recrawl"
)

// sites is the product's judge of nearness, overlay.Judge, for a world of known sites: few enough that it can be asked about each of them. All
// peers measure a site before its first task.
//
// The dispatcher looks whenever a thread has become free, as the manager's does, and not once in a step.
type sites struct {
	s      *shoal
	judge  *overlay.Judge
	view   *overlay.View // nil: somebody has come or gone
	looks  recrawl.Tick
	active []int32 // runs, in no order
	asked  []asked // the first that began first
	timed  []bool  // by site: it was measured
}

// mostJudged is how many peers a site can keep measurements of.
const mostJudged = coords.MaxSamples

func newSites(s *shoal) *sites {
	judge, err := overlay.NewJudge(overlay.JudgeConfig{Vantages: vantages, Small: overlay.SmallTicks * s.unit}, sim.Rand(s.r.cfg.Seed, "judge"))
	if err != nil {
		panic(err) // the configuration does not depend on flags
	}
	return &sites{s: s, judge: judge, timed: make([]bool, len(s.r.w.group))}
}

const vantages = 8 // peers that measure a host at first, as in the manager

// survey ends the measurements that have taken their time, and begins others.
func (n *sites) survey(now time.Time) {
	ended := 0
	for ; ended < len(n.asked) && now.Sub(n.asked[ended].at) >= surveyTakes; ended++ {
		host := n.asked[ended].host
		n.timed[host-1] = true
		n.judge.Surveyed(host)
		n.judge.Learn(host)
	}
	n.asked = n.asked[ended:]
	for _, s := range n.judge.Surveys() {
		n.asked = append(n.asked, asked{s.Host, now})
	}
}

// asked is a site that is being measured.
type asked struct {
	host channel.HostKey
	at   time.Time
}

// surveyTakes is how long that takes: three connections of the farthest peer, and its answer.
const surveyTakes = 500 * time.Millisecond

// see takes in who is there now.
func (n *sites) see(now time.Time) {
	if n.view != nil {
		return
	}
	var peers []overlay.PeerRecord
	for i, alive := range n.s.r.alive {
		if alive {
			peers = append(peers, overlay.PeerRecord{ID: overlay.ID(n.s.names[i]), Coord: nowhere(), Load: overlay.Load{Threads: uint8(n.s.threads), Slots: uint8(n.s.holds - n.s.threads)}})
		}
	}
	n.view = overlay.ViewOf(now, peers)
	n.judge.See(n.view)
}

// nowhere is the coordinate of a peer whose distances were all measured.
func nowhere() coords.Coord { return coords.Coord{Err: coords.MaxErr} }

// Room implements dispatch.Judge.
func (n *sites) Room(now time.Time, a dispatch.Ask) (dispatch.Peer, dispatch.Verdict) {
	w, host := n.s.r.w, channel.HostKey(a.Slot)+1
	if !n.judge.Knows(now, host) {
		var r coords.HostRecord
		for i, rtt := range w.scale.RTT[a.Slot] {
			if !n.timed[a.Slot] {
				break
			}
			r.Add(coords.Sample{Vantage: string(n.s.names[i]), At: nowhere(), RTT: n.s.length(float64(rtt)), When: 1})
		}
		n.judge.Locate(now, host, strconv.Itoa(int(a.Slot)), r)
	}
	ask := overlay.Ask{Host: host, Share: a.Share, Pages: n.pages(a.Slot), Gap: n.s.gap, Spare: a.Spare, Only: overlay.ID(a.Only)}
	named, verdict := n.judge.Near(now, ask)
	switch verdict {
	case overlay.Full:
		return dispatch.Peer(named.Peer), dispatch.Wait
	case overlay.Unmeasured:
		return "", dispatch.Unknown
	}
	return dispatch.Peer(named.Peer), dispatch.Go
}

// pages is how many pages a site's next task has, by how long the last one took.
func (n *sites) pages(at recrawl.Slot) int {
	if service := n.s.r.s.Facts(at).Service.Float(); service > 0 {
		return int(float64(service) / (n.s.r.w.scale.Gap + n.s.r.w.scale.Page))
	}
	return firstBudget
}

// size is the same, or, of a site that was never crawled, how many pages links of others tell of.
func (n *sites) size(at recrawl.Slot) int {
	if n.s.r.s.Facts(at).Service.Float() > 0 {
		return max(n.pages(at), 1)
	}
	return min(max(n.s.r.linked(int32(at)), 1), firstBudget)
}

// usual is how many pages the sites have on average, as far as they were crawled.
func (n *sites) usual() float64 {
	if s := &n.s.r.sizes; s.n > 0 {
		return float64(s.pages / s.n)
	}
	return 0
}

const firstBudget = 64 // pages of a channel's first task, at most

// Farther implements dispatch.Judge. A site is a host here.
func (n *sites) Farther(now time.Time, tasks []dispatch.Ask) (int, dispatch.Peer, bool) {
	asks := make([]overlay.Ask, len(tasks))
	for i := range tasks {
		asks[i] = overlay.Ask{Host: channel.HostKey(tasks[i].Slot) + 1, Pressing: tasks[i].Pressing, Since: tasks[i].Since, Usual: n.usual(), Pages: n.size(tasks[i].Slot)}
	}
	i, p, ok := n.judge.Farther(now, asks)
	return i, dispatch.Peer(p), ok
}

// Held implements dispatch.Judge.
func (n *sites) Held(p dispatch.Peer, k int) { n.judge.Held(n.s.now, overlay.ID(p), k) }

// Capacity implements dispatch.Judge.
func (n *sites) Capacity(time.Time) dispatch.Capacity {
	peers, holds, held := n.judge.Capacity()
	threads, idle := n.judge.Threads()
	return dispatch.Capacity{Peers: peers, Holds: holds, Held: held, Threads: threads, Idle: idle}
}

// Looked implements dispatch.Judge. Once a tick is enough, as in the manager.
func (n *sites) Looked(now time.Time) {
	if tick := n.s.clock.At(now); tick != n.looks {
		n.looks = tick
		n.judge.Looked()
	}
}

// until ends what ends up to a step, in its order, and has the dispatcher look after each end.
func (n *sites) until(minute int) {
	for {
		first, end := -1, math.Inf(1)
		for k, i := range n.active {
			if run := &n.s.runs[i]; run.end < end {
				first, end = k, run.end
			}
		}
		if first < 0 || end > float64(minute) {
			return
		}
		i := n.active[first]
		n.active[first] = n.active[len(n.active)-1]
		n.active = n.active[:len(n.active)-1]
		run := n.s.runs[i]
		n.s.runs[i].next, n.s.unused = n.s.unused, i
		if run.peer == nothing {
			continue
		}
		n.s.complete(minute, run)
		n.s.r.parts[0].handOut(minute, n.s.at(end))
	}
}

// landing is where the tasks of a run landed, and how far its first pass came.
type landing struct {
	tasks, pages []float64 // by site
	rtt          float64   // sum over tasks, steps
	room         []float64 // thread steps that each peer was there
	never        int       // sites never crawled
	pass         float64   // when all had been; below 0: not yet
	late         float64   // likewise, steps after Scale.Burst
	looks        []Look    // one for each step
}

// Look is a world of known sites at the end of a step, as far as its sites are channels by then.
type Look struct {
	Fresh, Weight   float64       // share of sites that are fresh; by importance
	Offered, Missed time.Duration // of threads' time since the start: all of it; idle while something was missing or stale
}

func newLanding(w *world) *landing {
	n := len(w.group)
	return &landing{tasks: make([]float64, n), pages: make([]float64, n), room: make([]float64, w.experiment.crawlers), never: n, pass: -1, late: -1}
}

// begun counts a task that starts.
func (m *metrics) begun(channel, crawler int32, pages float32) {
	if l := m.landing; l != nil {
		l.tasks[channel]++
		l.pages[channel] += float64(pages)
		l.rtt += float64(m.w.scale.RTT[channel][crawler])
	}
}

// cut takes back the pages of a task that it was kept from.
func (m *metrics) cut(channel int32, pages float64) {
	if l := m.landing; l != nil {
		l.pages[channel] -= pages
	}
}

// fetched is how many pages of each site were fetched by now: those of tasks that began, without what those have left that run.
func (l *landing) fetched(s *shoal) []float64 {
	pages, now := slices.Clone(l.pages), float64(len(l.looks))
	for ch := range s.tasks {
		if i := s.tasks[ch].run; i != nothing {
			run := &s.runs[i]
			pages[ch] -= float64(run.pages) * min(max(run.end-now, 0)/(run.end-run.started), 1)
		}
	}
	return pages
}

// see looks at a step that has ended.
func (l *landing) see(minute int, r *run) {
	for c, alive := range r.alive {
		if alive {
			l.room[c] += float64(r.w.scale.Threads)
		}
	}
	fresh, weight, all, never := 0., 0., 0., 0
	for c := range r.m.of[:r.there] {
		share, own := r.m.freshNow(minute, c), r.w.scale.Sites[c].importance()
		fresh, weight, all = fresh+share, weight+own*share, all+own
		if r.m.of[c].last < 0 {
			never++
		}
	}
	if l.never = never; never == 0 && l.pass < 0 {
		l.pass = float64(minute)
	}
	if never == 0 && l.late < 0 && r.w.late() > 0 && minute >= r.w.scale.Burst {
		l.late = float64(minute - r.w.scale.Burst)
	}
	look := Look{Fresh: fresh / float64(r.there), Weight: weight / all}
	if s, ok := r.swarm.(*shoal); ok {
		u := s.r.parts[0].m.Usage()
		look.Offered, look.Missed = u.Offered, u.Missed
	}
	l.looks = append(l.looks, look)
}

// freshNow is the chance that a site's copy is fresh in a step that has ended; where it is known what its pages show, 0 or 1.
func (m *metrics) freshNow(minute, site int) float64 {
	of := &m.of[site]
	switch {
	case of.last < 0:
		return 0
	case m.shown == nil:
		return math.Exp(-float64(minute-int(of.last)) / of.tau)
	case m.shown.fresh(site, float64(minute)):
		return 1
	}
	return 0
}

// Landing is what Row says of a world of known sites. Times are in steps.
type Landing struct {
	RTT, RTTBound float64 // mean over tasks; the least with which the peers could have done as much
	FirstPass     float64 // until every site was crawled once; below 0: it was not
	Steady90      float64 // until nine tenths of the freshness of the second half
	Steady        float64 // that freshness
	Idle, Missed  float64 // share of the thread time without a task; while something was missing or stale
	Fresh, Weight float64 // freshness of sites, and by importance, on average
	LatePass      float64 // from Scale.Burst until every site was crawled once; below 0: it was not
	Looks         []Look  // one for each step
}

func (l *landing) tell(r *run) *Landing {
	all := 0.
	for _, t := range l.tasks {
		all += t
	}
	out := &Landing{RTT: ratio(l.rtt, all), FirstPass: l.pass, LatePass: l.late, Looks: l.looks}
	out.Fresh, out.Weight = means(l.looks)
	out.Steady, _ = means(l.looks[len(l.looks)/2:])
	out.Steady90 = float64(slices.IndexFunc(l.looks, func(k Look) bool { return k.Fresh >= .9*out.Steady }))
	if s, ok := r.swarm.(*shoal); ok {
		out.RTTBound = r.w.scale.LeastRTT(l.tasks, l.fetched(s), l.room)
		u := s.r.parts[0].m.Usage()
		out.Idle, out.Missed = ratio(u.Idle.Seconds(), u.Offered.Seconds()), ratio(u.Missed.Seconds(), u.Offered.Seconds())
	}
	return out
}

func means(looks []Look) (fresh, weight float64) {
	for i := range looks {
		fresh, weight = fresh+looks[i].Fresh, weight+looks[i].Weight
	}
	return fresh / float64(len(looks)), weight / float64(len(looks))
}

// LeastRTT is the least mean round-trip time over tasks, in steps, with which peers could crawl sites so often: a transport problem over the time of their
// threads, room of each peer. tasks and pages are by site. Each task takes at least the time that it takes from the peer nearest to its site. What was done fits into
// the time that there was: if it seems not to, by a quarter at most, a page or a task costs less than the mean that was measured, and all peers get so much more room,
// which makes the bound no higher. 0: there is not so much room.
func (s *Scale) LeastRTT(tasks, pages, room []float64) float64 {
	var took, cost []float64
	var of []int
	all, start := 0., s.Start
	if s.Claims != nil {
		start += float64(slices.Min(s.Claims))
	}
	for i, n := range tasks {
		if n == 0 {
			continue
		}
		near := float64(slices.Min(s.RTT[i]))
		time := n*start + pages[i]*(s.Sites[i].Gap+s.Page+near)
		took, cost, of = append(took, time), append(cost, n/time), append(of, i)
		all += n
	}
	if need, have := sum(took), sum(room); need > have && need <= mostOver*have {
		room = slices.Clone(room)
		for j := range room {
			room[j] *= need / have * (1 + 1e-9)
		}
	}
	total, err := haul.Least(took, room, func(i, j int) float64 { return cost[i] * float64(s.RTT[of[i]][j]) })
	if err != nil || all == 0 {
		return 0
	}
	return total / all
}

const mostOver = 1.25

func sum(v []float64) (all float64) {
	for _, x := range v {
		all += x
	}
	return all
}
