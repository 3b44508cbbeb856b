package overlaysim

import (
	"slices"
	"time"

	"shoal/coords"
)

// fire is the paper's way: tasks are fired and forgotten. Five threads, a soft queue of five; where the peer at which a task arrives has a full queue, it
// forwards it to the least loaded of those that it knows, as long as that one is less loaded; a task that has waited too long is cancelled without a
// word; what a peer had that vanishes is lost; one that leaves politely passes its tasks on.
//
// "paper" does so on the paper's overlay, CAN: a task is routed to the owner of the zone that its host's coordinate lies in, and forwarded among
// neighbours for as long as one is less loaded. "paper-once" reads the paper's sentence ("is forwarded to a less loaded crawler") to the letter: forwarded once, to the
// least loaded neighbour, where it waits. "paper-near" is the same as the first without an overlay, as recrawlsim has it: tasks come to the truly nearest peer, and may be
// forwarded to the 40 nearest that are up, whose loads are known.
type fire struct {
	s       *swarm
	can     *can // nil: paper-near
	once    bool
	peers   []firePeer
	fetched []float64
	updates int
	lost    int
	good    float64
	use     use
	waits   []float64
	tally   tally
}

type firePeer struct {
	running []*fireTask
	waiting []*fireTask
}

type fireTask struct {
	place   int
	key     []float64
	born    int64
	pages   float64 // left
	all     float64
	limit   int64 // how long it may still wait
	queued  int64 // since when it waits
	started int64
	perPage float64
	peer    int
	gone    bool // from that peer
	counted bool
}

const (
	fireDims = 5 // CAN's at its best
	fireNear = 40
)

func newFire(s *swarm, name string, c *can, once bool) *fire {
	f := &fire{s: s, can: c, once: once, peers: make([]firePeer, len(s.n.members)), fetched: make([]float64, len(s.n.members)), tally: tally{name: name}}
	if c != nil {
		f.tally.tables, f.tally.tableMost = c.state()
	}
	s.n.left = append(s.n.left, f.leave)
	return f
}

func (f *fire) row(base Row, minutes float64) Row {
	row := f.tally.row(base)
	row.Success, row.Goodput, row.Imbalance, row.Wait50 = share(f.updates, f.lost), f.good/minutes/1000, imbalance(f.fetched), quantile(f.waits, .5)
	f.use.tell(&row, f.good, f.fetched)
	return row
}

func (f *fire) load(i int) int { return len(f.peers[i].running) + len(f.peers[i].waiting) }

func (f *fire) submit(place int, pages float64, at *coords.Coord) {
	t := &fireTask{place: place, pages: pages, all: pages, born: f.s.n.now, limit: int64(waitLimit), counted: f.s.counted}
	if f.can != nil {
		t.key = f.can.key(at)
	}
	f.place(t, true)
}

// place brings a task to a peer.
func (f *fire) place(t *fireTask, first bool) {
	var who, lost int
	var path []int
	if f.can != nil {
		from, in := none, false
		for range 100 { // a new member has no zone yet
			from = f.s.n.someone(f.s.n.rng)
			if _, in = f.can.zone[from]; in {
				break
			}
		}
		if !in {
			f.drop(t, 0)
			return
		}
		path, lost = f.can.route(from, t.key)
		path = f.forward(path)
		who = path[len(path)-1]
	} else {
		who = f.nearest(t)
	}
	if who == none {
		f.drop(t, 0)
		return
	}
	if t.counted && first {
		hops, stretch := 1, 1.
		if path != nil {
			hops, stretch = len(path)-1, f.s.n.pathStretch(path, lost)
		}
		f.tally.land(f.s.n.ground.rtt(who, t.place), stretch, hops)
	}
	f.take(t, who)
}

// forward goes on from the end of a path to less loaded neighbours.
func (f *fire) forward(path []int) []int {
	for {
		at := path[len(path)-1]
		if f.load(at) < threads+slots {
			return path
		}
		best := at
		for _, o := range f.can.neighbours(at) {
			if f.load(o) < f.load(best) {
				best = o
			}
		}
		if best == at {
			return path
		}
		if path = append(path, best); f.once {
			return path
		}
	}
}

// nearest is the nearest peer; if its queue is full, the nearest with a free thread of the fireNear nearest, else the least loaded of them.
func (f *fire) nearest(t *fireTask) int {
	type near struct {
		ms  float64
		who int
	}
	best := make([]near, 0, fireNear+1)
	for i := 1; i < len(f.peers); i++ {
		if !f.s.n.members[i].up {
			continue
		}
		ms := f.s.n.ground.rtt(i, t.place)
		if len(best) == fireNear && ms >= best[fireNear-1].ms {
			continue
		}
		best = append(best[:min(len(best), fireNear-1)], near{ms, i})
		for j := len(best) - 1; j > 0 && best[j-1].ms > ms; j-- {
			best[j], best[j-1] = best[j-1], best[j]
		}
	}
	if len(best) == 0 {
		return none
	}
	who := best[0].who
	if f.load(who) < threads+slots {
		return who
	}
	for _, b := range best {
		if f.load(b.who) < f.load(who) {
			if who = b.who; f.load(who) < threads {
				break
			}
		}
	}
	return who
}

func (f *fire) take(t *fireTask, who int) {
	n, p := f.s.n, &f.peers[who]
	t.peer, t.queued, t.gone = who, n.now, false
	if f.s.n.members[who].swallows {
		f.drop(t, 0)
		return
	}
	if len(p.running) < threads {
		f.start(t)
		return
	}
	p.waiting = append(p.waiting, t)
	n.after(time.Duration(t.limit)+1, func() {
		if k := slices.Index(f.peers[who].waiting, t); k >= 0 && t.queued+t.limit < n.now {
			f.peers[who].waiting = slices.Delete(f.peers[who].waiting, k, k+1)
			f.drop(t, 0)
		}
	})
}

func (f *fire) start(t *fireTask) {
	n := f.s.n
	t.started = n.now
	t.perPage = 1e9*f.s.pageTime[t.peer] + 2e6*n.ground.rtt(t.peer, t.place)
	f.peers[t.peer].running = append(f.peers[t.peer].running, t)
	if t.counted && t.pages == t.all {
		f.waits = append(f.waits, float64(n.now-t.born)/float64(time.Minute))
	}
	peer, started := t.peer, t.started
	n.after(time.Duration(t.pages*t.perPage), func() {
		if !t.gone && t.peer == peer && t.started == started {
			f.finish(t)
		}
	})
}

func (f *fire) finish(t *fireTask) {
	p := &f.peers[t.peer]
	p.running = slices.DeleteFunc(p.running, func(o *fireTask) bool { return o == t })
	if f.s.counted {
		f.updates++
		f.good += t.all
		f.fetched[t.peer] += t.pages
	}
	if len(p.waiting) > 0 {
		next := p.waiting[0]
		p.waiting = slices.Delete(p.waiting, 0, 1)
		f.start(next)
	}
}

func (f *fire) leave(who int, polite bool) {
	p := &f.peers[who]
	running, waiting := p.running, p.waiting
	*p = firePeer{}
	now := f.s.n.now
	for _, t := range running {
		t.gone = true
		done := min(float64(now-t.started)/t.perPage, t.pages)
		if f.s.counted {
			f.fetched[who] += done
		}
		if !polite {
			f.drop(t, done)
			continue
		}
		t.pages = max(t.pages-done, 1)
	}
	for _, t := range waiting {
		t.limit -= now - t.queued
		if !polite {
			f.drop(t, 0)
		}
	}
	if !polite {
		return
	}
	f.s.n.after(0, func() { // when it is no more
		for _, t := range slices.Concat(running, waiting) {
			f.place(t, false)
		}
	})
}

// drop loses a task, what was fetched of it before it was passed on, and what was fetched here.
func (f *fire) drop(t *fireTask, here float64) {
	if f.s.counted {
		f.lost++
		f.use.lost += t.all - t.pages + here
	}
}

func (f *fire) runs(i int) int { return len(f.peers[i].running) }
