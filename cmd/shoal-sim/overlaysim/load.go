package overlaysim

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/sim"
	"shoal/overlay"
	"shoal/peer/queue"
)

// What the product's crawlers and manager are set to here, as in recrawlsim.
const (
	threads    = sim.Threads
	slots      = sim.SoftQueue
	gap        = 200 * time.Millisecond // politeness wait before each page: sim.PageWait
	assumed    = 800 * time.Millisecond // what a page costs beside it, until that is learnt
	waitLimit  = 2 * time.Hour          // a task may wait so long
	checkpoint = 10 * time.Minute       // between two chunks of a running task
	retryEvery = 5 * time.Minute        // until an interrupted task that nobody took is offered again; that goes on until somebody takes it
	busyAgain  = time.Second            // until a task is offered for which the manager had no room
)

// swarm is the product at work: one manager places the tasks that come by its overlay.Node, peers' queues accept what they can start in time, claims, leases and
// handings-out are channel/lease, a channel goes on from its last chunk.
type swarm struct {
	c        *Command
	n        *network
	rng      *rand.Rand // arrivals
	terms    lease.Terms
	pageTime []float64 // of each member: seconds of wait and transfer
	crawlers []*crawler
	tasks    []*task
	hosts    map[int]*webHost
	known    []overlay.PeerRecord // everybody, read at knownAt
	knownAt  int64
	fires    []*fire

	counted                            bool // the settling in is over
	offered, accepted, refused, unsure int
	updates, failed, stolen, moved     int
	good                               float64   // pages of updates
	fetched                            []float64 // pages, by member
	use                                use
	waits                              []float64 // minutes from submission to the first start
	tally                              tally
	nearest, random                    []float64
	opened                             func() // is called when the work begins
}

// task is a channel's lease, and what is left of it.
type task struct {
	s        *swarm
	id       channel.ID
	place    int
	pages    float64
	left     float64
	born     int64
	began    int64 // placing of the present handing-out
	issue    lease.Issue
	fence    lease.Fence
	latest   time.Time
	holder   int // who accepted last, as far as the manager knows; none
	run      *run
	accepted bool
	started  bool
	counted  bool
	over     bool
}

// run is a task at a thread.
type run struct {
	peer    int
	started int64
	perPage float64 // ns
	pages   float64
	cut     bool
}

func newSwarm(c *Command, seed uint64) *swarm {
	s := &swarm{c: c, rng: sim.Rand(seed, "arrivals"), terms: lease.Default(), hosts: map[int]*webHost{}, crawlers: make([]*crawler, c.Peers+1),
		fetched: make([]float64, c.Peers+1), tally: tally{name: "rings", messages: true}}
	bandwidth := sim.Rand(seed, "bandwidth")
	for range c.Peers + 1 {
		s.pageTime = append(s.pageTime, sim.PageTime(bandwidth))
	}
	return s
}

func (s *swarm) queueOf(i int) overlay.Queue {
	w := &crawler{s: s, who: i, wake: math.MinInt64, q: queue.New[channel.Gen](queue.Config{Threads: threads, Queue: slots, Service: assumed})}
	s.crawlers[i] = w
	return w
}

// measureLoad runs the product and the paper's crawlers on the same tasks and the same churn.
func (c *Command) measureLoad(ctx context.Context, seed uint64) ([]Row, error) {
	return c.work(ctx, newSwarm(c, seed), seed)
}

func (c *Command) work(ctx context.Context, s *swarm, seed uint64) ([]Row, error) {
	begun := time.Now()
	n, err := c.open(ctx, seed, s.queueOf)
	if err != nil {
		return nil, err
	}
	s.n = n
	n.event = s.placed
	n.left = append(n.left, s.leave)
	zones := newCANOf(fireDims, n)
	s.fires = []*fire{newFire(s, "paper", zones, false), newFire(s, "paper-once", zones, true), newFire(s, "paper-near", nil, false)}
	base := c.base(n, seed)
	s.tally.tables, s.tally.tableMost = n.tables()
	s.next(s.meanGap())
	if s.opened != nil {
		s.opened()
	}
	settle := c.For / 3
	if err := n.live(ctx, settle); err != nil {
		return nil, err
	}
	s.counted = true
	s.watch()
	gossips, sent, since := n.gossips, n.sent, n.now
	if err := n.live(ctx, c.For-settle); err != nil {
		return nil, err
	}
	minutes := float64(n.now-since) / float64(time.Minute)
	base.Messages = n.perMinute(gossips, since)
	base.Nearest50, base.Nearest90, base.Random50 = quantile(s.nearest, .5), quantile(s.nearest, .9), quantile(s.random, .5)
	if c.Plot != "" {
		if err := plotSwarm(c.Plot, c, n, s); err != nil {
			return nil, err
		}
	}
	base.Seconds = seconds(begun)
	row := s.tally.row(base)
	row.Success, row.Goodput = share(s.updates, s.failed), s.good/minutes/1000
	row.Refused, row.Unsure, row.Imbalance = float64(s.refused)/float64(max(s.offered, 1)), s.unsure, imbalance(s.fetched)
	row.Wait50, row.Sent = quantile(s.waits, .5), float64(n.sent-sent)/float64(max(s.offered, 1))
	s.use.tell(&row, s.good, s.fetched)
	rows := []Row{row}
	for _, f := range s.fires {
		rows = append(rows, f.row(base, minutes))
	}
	return rows, nil
}

// share is a of a and b.
func share(a, b int) float64 { return float64(a) / float64(max(a+b, 1)) }

// imbalance is the most over the mean.
func imbalance(v []float64) float64 {
	sum := 0.
	for _, x := range v {
		sum += x
	}
	return slices.Max(v) * float64(len(v)-1) / max(sum, 1) // the manager, the first, fetches nothing
}

// meanGap is the mean time between two tasks that makes the offered load.
func (s *swarm) meanGap() time.Duration {
	rng, pages := sim.Rand(1, "pages"), 0.
	const draws = 20_000
	for range draws {
		pages += sim.Pages(s.c.Pages, rng) / draws
	}
	perPage := 0.
	for _, t := range s.pageTime[1:] {
		perPage += t / float64(s.c.Peers)
	}
	there := 1.
	if c := s.n.churn; c != nil {
		there = c.Life / (c.Life + c.Gap)
	}
	work := pages * perPage // thread seconds
	return time.Duration(work / (s.c.Load * float64(s.c.Peers) * there * threads) * 1e9)
}

// next has a task come, and the one after it.
func (s *swarm) next(mean time.Duration) {
	s.n.after(time.Duration(s.rng.ExpFloat64()*float64(mean)), func() {
		s.submit(len(s.n.members)+s.rng.IntN(s.c.Hosts), sim.Pages(s.c.Pages, s.rng))
		s.next(mean)
	})
}

// webHost is what is known of a host, which is measured before its first task, and where it was thought to be when so much was known.
type webHost struct {
	record coords.HostRecord
	at     coords.Coord
	fitted int // samples; they only become more or newer
	when   int64
}

func (s *swarm) host(place int) *webHost {
	h := s.hosts[place]
	if h == nil {
		if s.known == nil || s.n.now-s.knownAt > int64(time.Minute) {
			s.known, s.knownAt = s.n.records(), s.n.now
		}
		h = &webHost{record: s.n.survey(place, s.known)}
		s.hosts[place] = h
	}
	return h
}

// refit is how long a fit is used, for the baselines; the product fits for each task.
const refit = time.Hour

func (s *swarm) where(h *webHost) *coords.Coord {
	if k := len(h.record.Samples); k != h.fitted || s.n.now-h.when > int64(refit) {
		h.at, _ = h.record.Fit(s.n.rng)
		h.fitted, h.when = k, s.n.now
	}
	return &h.at
}

func (s *swarm) submit(place int, pages float64) {
	t := &task{s: s, id: channel.ID(len(s.tasks) + 1), place: place, pages: pages, left: pages, born: s.n.now, holder: none, counted: s.counted}
	s.tasks = append(s.tasks, t)
	if t.counted {
		s.offered++
		least := math.Inf(1)
		for _, i := range s.n.ups() {
			least = min(least, s.n.ground.rtt(i, place))
		}
		s.nearest = append(s.nearest, least)
		s.random = append(s.random, s.n.ground.rtt(s.n.someone(s.rng), place))
	}
	at := s.where(s.host(place))
	for _, f := range s.fires {
		f.submit(place, pages, at)
	}
	s.hand(t)
}

// hand issues the next generation and has it placed.
func (s *swarm) hand(t *task) {
	now := s.n.time()
	t.latest = now.Add(waitLimit)
	gen, err := t.issue.Next(now, t.latest, s.terms)
	if err != nil { // pausing: the deadline comes
		s.await(t)
		return
	}
	t.fence.Deposit(gen)
	t.began, t.holder = s.n.now, none
	h := channel.Header{Channel: t.id, Gen: gen, Host: hostOf(t.place), Pages: int(math.Ceil(t.left)), Issued: now, Latest: t.latest, Gap: gap}
	s.n.send(manager, s.n.members[manager].node.Place(now, uint64(t.id), overlay.Task{Header: h}, s.host(t.place).record))
}

// placed takes what a placing of the manager's came to.
func (s *swarm) placed(who int, e overlay.Event) bool {
	if who != manager || e.Req == 0 || e.Req > uint64(len(s.tasks)) {
		return false
	}
	t := s.tasks[e.Req-1]
	gen := t.issue.Gen
	first := !t.accepted
	r := &s.host(t.place).record
	for _, m := range e.Placed.Samples {
		r.Add(m)
	}
	switch {
	case errors.Is(e.Err, overlay.ErrBusy):
		t.issue.Refused(gen)
		s.n.after(busyAgain, func() { s.hand(t) })
		return true
	case errors.Is(e.Err, overlay.ErrRefused):
		if t.issue.Refused(gen) == 0 {
			return true // the claim came first
		}
		if first {
			t.over = true
			if t.counted {
				s.refused++
			}
		} else {
			s.n.after(retryEvery, func() { s.hand(t) })
		}
		return true
	case e.Err != nil: // somebody may have it: its claim is awaited
		if t.counted {
			s.unsure++
		}
	default:
		t.holder = s.n.who(e.Placed.Peer)
	}
	t.accepted = true
	if t.counted && first {
		s.accepted++
		s.note(t, &e)
	}
	t.issue.Placed(gen)
	s.await(t)
	return true
}

// note counts a placing.
func (s *swarm) note(t *task, e *overlay.Event) {
	y := &s.tally
	y.done++
	y.hops += e.Placed.Hops
	y.queries += e.Placed.Queries
	if len(e.Found) == 0 {
		y.empty++
	}
	s.recall(e)
	if t.holder == none {
		return
	}
	y.rtt = append(y.rtt, s.n.ground.rtt(t.holder, t.place))
	y.stretch = append(y.stretch, float64(s.n.offerAt[manager]-t.began)/1e6/s.n.ground.rtt(manager, t.holder))
}

// recall compares what a lookup found with everybody.
func (s *swarm) recall(e *overlay.Event) {
	away := func(i int) float64 {
		at := s.n.members[i].node.Coord()
		return coords.Distance(&at, &e.Goal)
	}
	best := math.Inf(1)
	for _, i := range s.n.ups() {
		best = min(best, away(i))
	}
	for k := range e.Found[:min(8, len(e.Found))] {
		if i := s.n.who(e.Found[k].ID); s.n.members[i].up && away(i) <= best+tie {
			if k == 0 {
				s.tally.recall1++
			}
			s.tally.recall8++
			return
		}
	}
}

// await looks at a task's lease when it has something to do.
func (s *swarm) await(t *task) {
	at, gen := t.issue.Deadline(), t.issue.Gen
	if at.IsZero() {
		return
	}
	s.n.after(at.Sub(s.n.time()), func() {
		if t.over || gen != t.issue.Gen {
			return
		}
		waited := t.issue.Phase == lease.Awaited
		s.follow(t, t.issue.Tick(s.n.time(), s.terms), waited)
	})
}

// follow does what an effect of the lease asks for. unclaimed: the task came to nothing since nobody claimed it.
func (s *swarm) follow(t *task, e lease.Effect, unclaimed bool) {
	if unclaimed && e != 0 && t.holder != none {
		s.n.members[manager].node.Doubt(s.n.time(), s.n.members[t.holder].id, epoch.Add(time.Duration(t.began)))
	}
	switch {
	case e&lease.GaveUp != 0:
		s.end(t, false)
	case e&lease.HandOut != 0 && t.issue.Phase == lease.Pausing:
		s.await(t)
	case e&lease.HandOut != 0:
		s.hand(t)
	}
}

// end counts a task out.
func (s *swarm) end(t *task, updated bool) {
	t.over = true
	switch {
	case !s.counted:
	case updated:
		s.updates++
		s.good += t.pages
	default:
		s.failed++
		s.use.lost += t.pages - t.left
	}
}

// start claims a task and runs it.
func (s *swarm) start(w *crawler, t *task, gen channel.Gen) {
	now := s.n.time()
	step := t.fence.Claim(now, lease.Peer(w.who+1), gen, t.latest, s.terms)
	t.issue.Apply(now, step.Event, s.terms)
	if step.Reply.Status != lease.Granted || t.over {
		w.q.Done(now, uint64(t.id), 0)
		w.at(s.n.now)
		return
	}
	if id := s.n.members[w.who].id; t.holder == w.who {
		s.n.members[manager].node.Trust(now, id)
	}
	if !t.started && t.counted {
		s.waits = append(s.waits, float64(s.n.now-t.born)/float64(time.Minute))
	}
	t.started = true
	r := &run{peer: w.who, started: s.n.now, pages: t.left, perPage: 1e9*s.pageTime[w.who] + 2e6*s.n.ground.rtt(w.who, t.place)}
	t.run = r
	s.n.after(time.Duration(r.pages*r.perPage), func() {
		if !r.cut {
			s.finish(w, t, r)
		}
	})
}

func (s *swarm) finish(w *crawler, t *task, r *run) {
	now := s.n.time()
	t.run = nil
	step := t.put(now, r, true)
	w.q.Done(now, uint64(t.id), int(math.Ceil(r.pages)))
	s.fetch(r.peer, r.pages)
	if t.issue.Apply(now, step.Event, s.terms)&lease.Apply != 0 {
		s.end(t, true)
	}
	w.at(s.n.now)
}

func (s *swarm) fetch(who int, pages float64) {
	if s.counted {
		s.fetched[who] += pages
	}
}

// put stores a chunk on the channel's head.
func (t *task) put(now time.Time, r *run, final bool) lease.Step {
	f := &t.fence
	c := lease.Chunk{Gen: f.Gen, Seq: f.Seq + 1, Prev: f.Head, Final: final}
	binary.LittleEndian.PutUint64(c.Hash[:], c.Seq)
	return f.Put(now, lease.Peer(r.peer+1), c, t.s.terms)
}

// leave ends a peer's life.
func (s *swarm) leave(i int, polite bool) {
	w := s.crawlers[i]
	if w == nil { // a swallower
		return
	}
	w.gone = true
	var running []queue.Item[channel.Gen]
	w.q.Each(func(it queue.Item[channel.Gen], started time.Time) {
		if !started.IsZero() {
			running = append(running, it)
		}
	})
	waiting := w.q.Handover(nil)
	for _, it := range running {
		s.cut(s.tasks[it.Key-1], polite)
	}
	if polite {
		s.handOver(i, waiting)
	}
}

// cut ends a run whose peer leaves: politely, with a last chunk and a release; or without a word, and the lease lapses.
func (s *swarm) cut(t *task, polite bool) {
	r := t.run
	if r == nil {
		return
	}
	r.cut, t.run = true, nil
	now := s.n.time()
	ran := s.n.now - r.started
	stored := ran
	if !polite {
		stored -= ran % int64(checkpoint)
	}
	t.left = max(r.pages-float64(stored)/r.perPage, 1)
	s.fetch(r.peer, float64(ran)/r.perPage)
	if s.counted {
		s.use.lost += float64(ran-stored) / r.perPage
	}
	if stored > 0 {
		t.put(epoch.Add(time.Duration(r.started+stored)), r, false)
	}
	if polite {
		step := t.fence.Release(lease.Peer(r.peer+1), t.fence.Gen)
		s.follow(t, t.issue.Apply(now, step.Event, s.terms), false)
		return
	}
	s.n.after(t.fence.Deadline().Sub(now), func() {
		step := t.fence.Tick(s.n.time())
		if step.Event.Kind != 0 {
			s.follow(t, t.issue.Apply(s.n.time(), step.Event, s.terms), false)
		}
	})
}

// handOver offers what a leaver has not claimed to those that it knows, in random order, as the product's runner does.
func (s *swarm) handOver(from int, items []queue.Item[channel.Gen]) {
	known := s.n.members[from].node.Known()
	s.n.rng.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	for _, p := range known {
		to := s.n.who(p.ID)
		if len(items) == 0 || p.Load.Threads == 0 || !s.n.members[to].up || to == from {
			continue
		}
		var rest []queue.Item[channel.Gen]
		for _, it := range items {
			if s.give(from, to, it) {
				s.moved++
			} else {
				rest = append(rest, it)
			}
		}
		items = rest
	}
}

// give hands one waiting task to another peer by the overlay's message.
func (s *swarm) give(from, to int, it queue.Item[channel.Gen]) bool {
	t := s.tasks[it.Key-1]
	h := channel.Header{Channel: t.id, Gen: it.Value, Host: hostOf(t.place), Pages: it.Pages, Latest: t.latest, Gap: it.Gap}
	for _, out := range s.n.members[to].node.Step(s.n.time(), s.n.members[from].id, overlay.Handoff{Tasks: []overlay.Task{{Header: h}}}) {
		if a, is := out.Msg.(overlay.HandoffAnswer); is && len(a.Taken) == 1 && a.Taken[0] {
			return true
		}
	}
	return false
}

// stealFrom is how many of the nearest known peers an idle one asks, and stealAgain how long it waits when they had nothing.
const (
	stealFrom  = 8
	stealAgain = time.Minute
)

// steal asks the nearest known peers for a task that they have not begun, and takes the last one of the first that has any.
func (s *swarm) steal(w *crawler) {
	node := s.n.members[w.who].node
	own := node.Coord()
	known := node.Known()
	slices.SortStableFunc(known, func(a, b overlay.PeerRecord) int {
		return int(math.Copysign(1, coords.Distance(&a.Coord, &own)-coords.Distance(&b.Coord, &own)))
	})
	asked := 0
	for _, p := range known {
		from := s.n.who(p.ID)
		if p.Load.Threads == 0 || !s.n.members[from].up || s.crawlers[from] == nil || from == w.who {
			continue
		}
		if asked++; asked > stealFrom {
			break
		}
		var last uint64
		s.crawlers[from].q.Each(func(it queue.Item[channel.Gen], started time.Time) {
			if started.IsZero() {
				last = it.Key
			}
		})
		if it, ok := s.crawlers[from].q.Remove(last); ok {
			if s.give(from, w.who, it) {
				s.stolen++
				return
			}
			_ = s.crawlers[from].q.Force(it) // it was its own
		}
	}
	s.n.after(stealAgain, func() {
		if !w.gone && w.q.Running() < threads && w.q.Waiting() == 0 {
			s.steal(w)
		}
	})
}
