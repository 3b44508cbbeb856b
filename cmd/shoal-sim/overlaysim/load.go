package overlaysim

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/sim"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/peer/queue"
	"shoal/recrawl"
)

// What the product's crawlers and manager are set to here, as in recrawlsim.
const (
	threads    = sim.Threads
	slots      = sim.SoftQueue
	gap        = 200 * time.Millisecond // politeness wait before each page: sim.PageWait
	assumed    = 800 * time.Millisecond // what a page costs beside it, until that is learnt
	waitLimit  = 2 * time.Hour          // a task may wait so long, as dispatch has it for strategies without intervals
	checkpoint = 10 * time.Minute       // between two chunks of a running task
	retryEvery = 5 * time.Minute        // until an interrupted task that no peer took is offered again; the offers go on until one takes it
	busyAgain  = time.Second            // until a task is offered for which the overlay had no room
)

// clock is the dispatcher's.
var clock = recrawl.Clock{Epoch: epoch, Step: time.Minute}

// swarm is the product at work: manager/dispatch hands the tasks out that come, the manager's overlay.Node places them, peers' queues accept what they can start in
// time, claims and leases are channel/lease, a channel goes on from its last chunk.
type swarm struct {
	c        *Command
	n        *network
	rng      *rand.Rand // arrivals
	terms    lease.Terms
	m        *dispatch.Machine
	near     *nearness
	wants    []want    // tasks to be handed out, the first that came first
	soonAt   int64     // when the machine is looked at next; none: it is not
	lookedAt int64     // when it was looked at last
	pageTime []float64 // of each member: seconds of wait and transfer
	crawlers []*crawler
	tasks    []*task
	hosts    map[int]*webHost
	known    []overlay.PeerRecord // all members, read at knownAt
	knownAt  int64
	fires    []*fire

	counted                            bool // the settling in is over
	offered, accepted, refused, unsure int
	updates, failed, stolen, moved     int
	good                               float64   // pages of updates
	fetched                            []float64 // pages, by member
	use                                use
	bound                              bound
	waits                              []float64 // minutes from submission to the first start
	tally                              tally
	nearest, random                    []float64
	opened                             func() // is called when the work begins
}

// want is a task to be handed out, and from when on.
type want struct {
	slot  recrawl.Slot
	again recrawl.Tick
}

// task is a channel that is crawled once: its lease, and what is left of it. Its slot is its id less one.
type task struct {
	s        *swarm
	id       channel.ID
	place    int
	pages    float64
	left     float64
	born     int64
	began    int64       // placing of the present handing-out
	issue    lease.Issue // as it was kept last
	order    dispatch.Order
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
	s.near = newNearness(s)
	s.m = dispatch.New(epoch, dispatch.Config{Clock: clock, Terms: s.terms}, s, s, s.near)
	s.soonAt = none
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
	row.RTTMean, row.RTTBound = mean(s.tally.rtt), s.bound.least(s)
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
	s.wants = append(s.wants, want{slot: t.slot()})
	s.look(0)
}
