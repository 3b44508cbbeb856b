package recrawlsim

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/internal/sim"
	"shoal/manager/dispatch"
	"shoal/overlay"
	"shoal/peer/queue"
	"shoal/recrawl"
)

// shoal is the product's swarm: manager/dispatch hands tasks out; they are offered to near peers in the overlay's order, each peer's own queue
// accepts what it can start in time or none does and the task is refused; fences are channel/lease; a channel goes on from its last
// checkpoint.
//
// It differs from the product in one thing: overlay.Judge takes no part, since it would ask about tens of thousands of hosts each minute. Its rule is
// Room: a task waits in the manager while the peers near its host are full, as many as an offer goes round to at first; the longer it has waited the farther it may
// go, to a free thread. All peers' places and queues are known. Where a task is let go, it is offered to the near peer that would finish it first, and refused if
// none can start it in time. shoal-sim overlay --load runs the same dispatcher with the judge.
//
// A running peer stores a chunk when it has one full, or after checkpoint minutes; only the last one before it vanishes is played, since the
// others change nothing.
type shoal struct {
	r      *run
	terms  lease.Terms
	queues []*queue.Queue[struct{}]
	drops  []int32 // earliest minute at which a waiting task of each peer is dropped
	// soonest is what a peer's queue quoted last, before which it cannot start another task: a quote only ever gets later until a task ends
	// or is given up there, when it is 0 again. It spares most sums, and changes no result. A full queue starts nothing: full; away: it is not there.
	soonest []time.Duration
	tasks   []shoalTask
	runs    []shoalRun
	shelves [][]shelved // of each peer that is away; nil: peers keep nothing
	unused  int32       // of runs
	ends    ends
	queued  int
	lapses  sim.Queue[shoalTimer]
	acts    []queue.Action[struct{}]

	unit       time.Duration // length of a step
	clock      recrawl.Clock
	gap        time.Duration
	checkpoint float64 // longest time between two chunks, minutes
	chunk      float64 // pages that fill one
	holds      int     // tasks of a peer, running and waiting
	items      []queue.Item[struct{}]
	threads    int             // of a peer
	places     int             // that the manager fills in its queue
	names      []dispatch.Peer // of the peers, where the manager's room is bounded
	sites      *sites          // who judges nearness; nil: shoal itself
	now        time.Time       // of the last look of the dispatcher
	apart      *apart
}

// shoalTask is what is left of a channel's task, its fence, and its issue as it was kept last.
type shoalTask struct {
	issue  lease.Issue
	fence  lease.Fence
	latest time.Time
	left   float32 // pages that are not durable yet
	since  int32
	run    int32 // running now; nothing: not
	kept   int32 // peer whose room is kept for it, which is asked first; nothing: none
	open   bool  // wanted, and neither updated nor over; an interrupted task stays so until the strategy asks again
	taken  bool  // accepted since it was submitted
}

type shoalRun struct {
	channel int32
	peer    int32 // nothing: cut short
	next    int32
	pages   float32
	started float64
	end     float64
}

// shoalTimer ends the lease of a generation.
type shoalTimer struct {
	channel int32
	gen     channel.Gen
}

const (
	checkpoint  = 10                // longest time, minutes, between two chunks of a running task, as in peer/crawl
	chunkPages  = 1 << 10 / pageKiB // that fill one: a peer sends a MiB at a time
	away        = time.Duration(math.MaxInt64)
	full        = away - 1
	politeGap   = 200 * time.Millisecond
	assumedPage = 800 * time.Millisecond // of a new peer, until it has learnt
	nobody      = math.MaxUint64         // key of no task
)

var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// since is how long after epoch a time is. It is quicker than Time.Sub, which looks for overflows.
func since(t time.Time) time.Duration { return time.Duration(t.UnixNano() - epochNanos) }

var epochNanos = epoch.UnixNano()

// at is when a step begins.
func (s *shoal) at(step float64) time.Time { return epoch.Add(s.length(step)) }

func (s *shoal) length(steps float64) time.Duration { return time.Duration(steps * float64(s.unit)) }

// steps is how many steps a time is.
func (s *shoal) steps(d time.Duration) float64 { return float64(d) / float64(s.unit) }

func newShoal(r *run) *shoal {
	n := r.w.experiment.crawlers
	s := &shoal{r: r, apart: newApart(r.cfg.Seed, len(r.w.group), r.cfg.Apart), terms: lease.Default(), queues: make([]*queue.Queue[struct{}], n), drops: make([]int32, n),
		unit: r.w.unit, soonest: make([]time.Duration, n), tasks: make([]shoalTask, len(r.w.group)), unused: nothing}
	cfg := queue.Config{Threads: threads, Queue: softQueue, Service: assumedPage}
	s.gap, s.checkpoint, s.chunk = politeGap, checkpoint, chunkPages
	if c := r.w.scale; c != nil {
		cfg = queue.Config{Threads: c.Threads, Queue: c.Queue, Service: s.length(cmp.Or(c.Assumed, c.Page))}
		s.gap, s.checkpoint, s.chunk = s.length(c.Gap), c.Checkpoint, math.Inf(1)
		s.terms.Term, s.terms.Backoff, s.terms.MaxBackoff = s.length(c.Term), s.length(c.Backoff), s.length(cmp.Or(c.MaxBackoff, 10*c.Backoff))
		if c.Slack > 0 {
			s.terms.Slack = s.length(c.Slack)
		}
	}
	s.holds, s.threads, s.places = cfg.Threads+cfg.Queue, cfg.Threads, cfg.Queue/queueShare
	for i := range s.queues {
		s.queues[i] = queue.New[struct{}](cfg)
		s.drops[i], s.soonest[i] = math.MaxInt32, away
	}
	for i := range s.tasks {
		s.tasks[i].run, s.tasks[i].kept = nothing, nothing
	}
	if r.w.scale != nil && r.w.scale.Keeps {
		s.shelves = make([][]shelved, n)
	}
	s.clock = recrawl.Clock{Epoch: s.at(1 - float64(begin)), Step: s.unit}
	c := dispatch.Config{Clock: s.clock, Terms: s.terms, MaxOut: -1, MaxWait: 24 * time.Hour}
	if scale := r.w.scale; scale != nil {
		c.MinWait, c.MaxWait = s.length(scale.WaitLimitMin), 0
		if scale.Room {
			c.MaxOut = 0
			for i := range s.queues {
				s.names = append(s.names, dispatch.Peer(strconv.Itoa(i)))
			}
		}
	}
	if r.w.scale != nil && r.w.scale.Room && r.w.scale.Sites != nil && n <= mostJudged {
		s.sites = newSites(s)
	}
	for _, p := range r.parts {
		p.swarm, p.free = s, make([]int32, n)
		if s.names != nil {
			p.held = make([]int32, n)
		}
		var judge dispatch.Judge = p
		if s.sites != nil { // there is one manager
			judge = s.sites
		}
		p.m = dispatch.New(epoch, c, p, p, judge)
	}
	return s
}

func (s *shoal) waiting() int { return s.queued }

func (s *shoal) open() int { return s.r.out }

func (s *shoal) load(peer int32) int {
	if s.soonest[peer] == away {
		return 0
	}
	return s.has(peer)
}

func (s *shoal) join(minute int, peer int32) {
	s.noted(peer)
	if s.sites != nil {
		s.sites.view = nil
	}
	s.resume(minute, peer)
}

// has counts the tasks of a peer.
func (s *shoal) has(peer int32) int { return s.queues[peer].Running() + s.queues[peer].Waiting() }

// noted takes down what a peer that is there holds now.
func (s *shoal) noted(peer int32) {
	if s.soonest[peer] = 0; s.has(peer) >= s.holds {
		s.soonest[peer] = full
	}
}

// submit hands out what is wanted, and what came to nothing before. The managers do so one after the other, and none is always the first.
func (s *shoal) submit(minute int) {
	if s.sites != nil && minute < s.r.w.scale.Come {
		return
	}
	if s.sites == nil {
		for _, p := range s.r.parts {
			p.look()
		}
	}
	for n := range s.r.parts {
		s.r.parts[(minute+n)%len(s.r.parts)].handOut(minute, s.at(float64(minute)))
	}
}

func (p *part) handOut(minute int, now time.Time) {
	s := p.swarm
	if s.now = now; s.sites != nil {
		s.sites.see(now)
		s.sites.survey(now)
	}
	if len(p.r.parts) > 1 && p.r.cfg.Quotas {
		p.m.Share = p.share
	}
	orders := p.m.Tick(now)
	due := p.r.due[:0]
	for i := range orders {
		due = append(due, p.channel(orders[i].Slot))
	}
	p.r.due = due
	s.touch(due)
	for i := range orders {
		p.hand(minute, now, &orders[i])
	}
	p.keep()
}

// hand offers a task.
func (p *part) hand(minute int, now time.Time, o *dispatch.Order) {
	s, ch := p.swarm, p.channel(o.Slot)
	t := &s.tasks[ch]
	t.latest = o.Latest
	t.fence.Deposit(o.Gen)
	peer, start, ok := s.offer(minute, now, ch, o.Peer)
	if !ok {
		p.m.Refused(now, *o)
		return
	}
	p.m.Placed(now, *o, s.name(peer), start)
	if !t.taken {
		t.taken = true
		s.r.m.accepted++
	}
}

// told is how many pages a task says that it has. Of a site that was never crawled the manager knows only what it allows at first.
func (s *shoal) told(ch int32) int {
	if s.sites != nil && s.r.m.of[ch].updates == 0 {
		return firstBudget
	}
	return int(math.Ceil(float64(s.tasks[ch].left)))
}

// name is what the manager knows a peer by; empty where it need not.
func (s *shoal) name(peer int32) dispatch.Peer {
	if s.names == nil {
		return ""
	}
	return s.names[peer]
}

// keep does what the machine asks for.
func (p *part) keep() {
	for _, a := range p.m.Acts() {
		t := &p.swarm.tasks[p.channel(a.Slot)]
		switch a.Kind {
		case dispatch.Persist:
			t.issue = a.Issue
		case dispatch.GaveUp: // an operator looks at it
			t.issue.Unmark()
			t.open = false
			p.r.out--
		}
	}
}

// offer gives the task to the peer that the judge has named, or whose room it keeps for it, or else to the near peer with the earliest expected finish of those that would take it.
func (s *shoal) offer(minute int, now time.Time, ch int32, named dispatch.Peer) (peer int32, start time.Time, ok bool) {
	t := &s.tasks[ch]
	header := channel.Header{Pages: s.told(ch), Gap: s.gap}
	best := s.takes(named, now, t.latest, &start)
	if kept := t.kept; kept != nothing && s.r.alive[kept] {
		if quote, ok := s.queues[kept].Quote(now, t.latest); ok {
			best, start = kept, quote
		}
	}
	t.kept = nothing
	if near := &s.r.w.near; best != nothing {
	} else if near.narrow != nil {
		best, start = earliest(s, of(near.narrow, near.each, ch), ch, &header, now, t.latest)
	} else {
		best, start = earliest(s, of(near.wide, near.each, ch), ch, &header, now, t.latest)
	}
	if best == nothing {
		return nothing, start, false
	}
	item := queue.Item[struct{}]{Key: uint64(ch), Pages: header.Pages, Gap: s.gap, Latest: t.latest}
	if err := s.queues[best].Take(now, item); err != nil {
		return nothing, start, false
	}
	s.queued++
	if !s.tick(minute, now, best) && s.soonest[best] != full {
		s.soonest[best] = since(start) // the next one starts no sooner
	}
	return best, start, true
}

// takes is the named peer, if it is there and takes a task now; nothing: it does not, or none is named.
func (s *shoal) takes(named dispatch.Peer, now, latest time.Time, start *time.Time) int32 {
	if s.sites == nil || named == "" {
		return nothing
	}
	p, err := strconv.Atoi(string(named))
	if err != nil || !s.r.alive[p] {
		return nothing
	}
	s.progress(now, int32(p))
	at, ok := s.queues[p].Quote(now, latest)
	if *start = at; !ok {
		return nothing
	}
	return int32(p)
}

// earliest is the near peer that would end the task first, of those that would take it, and when it would start; nothing: none.
func earliest[C uint16 | int32](s *shoal, near []C, ch int32, header *channel.Header, now, last time.Time) (best int32, start time.Time) {
	best, bestFinish, looked, limit := nothing, time.Duration(math.MaxInt64), 0, overlay.Widen(0)
	nowAt, latest := since(now), since(last)
	soonest, w := s.soonest, s.r.w
	for _, p := range near {
		if looked == limit {
			if limit = overlay.Widen(looked); best != nothing || limit == 0 {
				break
			}
		}
		from := soonest[p]
		if from > latest { // it is away, or would refuse, perhaps after a long sum
			if from != away {
				looked++
			}
			continue
		}
		looked++
		service := overlay.Service(*header, w.away(ch, int32(p)))
		if service >= bestFinish { // and so are all that are farther
			break
		}
		if from-nowAt+service >= bestFinish {
			continue
		}
		quote, takes := s.queues[p].Quote(now, last)
		from = since(quote)
		soonest[p] = from
		if takes {
			if f := from - nowAt + service; f < bestFinish {
				best, bestFinish, start = int32(p), f, quote
			}
		}
	}
	return best, start
}
