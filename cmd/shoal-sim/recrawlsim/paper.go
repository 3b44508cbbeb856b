package recrawlsim

import (
	"math"

	"shoal/internal/sim"
	"shoal/recrawl"
)

// paper is the paper's crawler (its section 4): five threads, a soft queue of five, tasks that are forwarded to the least loaded of the
// near crawlers when the nearest one's queue is full, cancelled without a word when they have waited longer than their limit, and lost
// with a crawler that vanishes. The manager hears of updates only.
type paper struct {
	r     *run
	tasks []paperTask
	free  int32
	ends  ends
	peers []paperPeer
	loads []uint16 // running and waiting tasks of each crawler; dead: none
	first []int32  // earliest minute at which a waiting task of each crawler may have to be cancelled
	queue int      // waiting tasks of all
	lost  sim.Queue[int32]
}

type paperTask struct {
	channel   int32
	crawler   int32 // -1: lost or moved on
	next      int32 // in the crawler's queue, or among the free
	until     int32 // minute at which it has waited too long, where it waits
	pages     float32
	left      float32 // minutes that it may still wait
	enqueued  float32 // minute since submitted
	submitted int32
	started   float64
	end       float64
}

type paperPeer struct {
	running    [threads]int32
	n          int8
	head, tail int32 // queue
	mixed      bool  // some task in it may wait for less long than one before it
}

const (
	softQueue = sim.SoftQueue
	// forwardNear is how many crawlers a task may be forwarded to. The paper does not say; with 40 its counts, intervals and quality come out.
	forwardNear = 40
	lossNotice  = 30 // minutes after which the manager takes a lost task for lost, where tasks out are limited
	dead        = math.MaxUint16
	nothing     = int32(-1)
)

func newPaper(r *run) *paper {
	n := r.w.experiment.crawlers
	p := &paper{r: r, free: nothing, peers: make([]paperPeer, n), loads: make([]uint16, n), first: make([]int32, n)}
	for i := range p.peers {
		p.peers[i].head, p.peers[i].tail, p.loads[i], p.first[i] = nothing, nothing, dead, math.MaxInt32
	}
	return p
}

func (p *paper) waiting() int { return p.queue }

func (p *paper) open() (n int) {
	for _, load := range p.loads {
		if load != dead {
			n += int(load)
		}
	}
	return n
}

func (p *paper) load(crawler int32) int { return int(p.loads[crawler]) }

func (p *paper) join(_ int, crawler int32) { p.loads[crawler] = 0 }

// submit takes what is due, and fires it at the crawlers.
func (p *paper) submit(minute int) {
	r := p.r
	r.due = r.due[:0]
	r.s.Next(begin+recrawl.Tick(minute), recrawl.Load{Room: -1, Out: r.out, Life: r.life}, func(at recrawl.Slot) (recrawl.Tick, bool) {
		r.due = append(r.due, int32(at))
		return 0, true
	})
	p.touch(r.due)
	for _, c := range r.due {
		limit := float32(waitLimit)
		if r.limits {
			g := r.w.group[c]
			if r.cfg.Rates == "learnt" {
				g = r.s.Facts(recrawl.Slot(c)).Group
			}
			limit = r.intervals[g]
		}
		r.out++
		r.m.submitted++
		r.m.submittedBy[r.w.group[c]]++
		r.m.accepted++
		p.place(minute, p.add(paperTask{channel: c, pages: r.w.pages[c], left: limit, submitted: int32(minute)}))
	}
}

func (p *paper) touch(channels []int32) {
	n := 0
	for _, ch := range channels {
		n += int(p.r.w.pages[ch]) + int(p.r.w.hosts[ch].X) + p.r.w.near.touch(ch)
	}
	p.r.touched += n
}

func (p *paper) add(task paperTask) int32 {
	t := p.free
	if t == nothing {
		p.tasks = append(p.tasks, task)
		return int32(len(p.tasks) - 1)
	}
	p.free = p.tasks[t].next
	p.tasks[t] = task
	return t
}

// place gives a task to the nearest crawler; if that one's queue is full, to the nearest with a free thread, else to the least loaded
// of the forwardNear nearest that are there.
func (p *paper) place(minute int, t int32) {
	channel := p.tasks[t].channel
	best := p.r.w.near.forward(channel, p.loads)
	if best == nothing { // all near ones are away
		for _, c := range p.r.w.index.Find(p.r.w.hosts[channel], 1, func(i int32) bool { return p.loads[i] != dead }, nil) {
			best = c
		}
		if best == nothing {
			p.drop(minute, t)
			return
		}
	}
	p.take(minute, t, best)
}

// forward is place's choice among the near crawlers of a channel; nothing: all are away.
func (n *nearby) forward(channel int32, loads []uint16) int32 {
	if n.narrow != nil {
		return forward(of(n.narrow, n.each, channel), loads)
	}
	return forward(of(n.wide, n.each, channel), loads)
}

// forward runs for every task, and looks at 40 crawlers where all are busy: it has few branches that depend on who is there.
func forward[C uint16 | int32](near []C, loads []uint16) int32 {
	i := 0
	for i < len(near) && loads[near[i]] == dead {
		i++
	}
	if i == len(near) {
		return nothing
	}
	best := near[i]
	least := loads[best]
	if least < threads+softQueue {
		return int32(best)
	}
	seen := uint32(1)
	for _, c := range near[i+1:] {
		load := loads[c]
		seen += (uint32(load^dead) + math.MaxUint16) >> 16 // 1 if it is there
		if seen > forwardNear {
			break
		}
		if load < least { // not so where it is dead
			if best, least = c, load; load < threads {
				break
			}
		}
	}
	return int32(best)
}

func (p *paper) take(minute int, t, c int32) {
	task, peer := &p.tasks[t], &p.peers[c]
	task.crawler = c
	p.loads[c]++
	if peer.n < threads {
		p.start(minute, float64(minute), t, c)
		return
	}
	task.next = nothing
	task.enqueued = float32(minute - int(task.submitted))
	task.until = task.submitted + int32(task.enqueued) + int32(task.left) + 1
	if peer.head == nothing {
		peer.head, peer.mixed = t, false
	} else {
		last := &p.tasks[peer.tail]
		last.next = t
		peer.mixed = peer.mixed || task.until < last.until
	}
	peer.tail = t
	p.queue++
	p.first[c] = min(p.first[c], task.until)
}

func (p *paper) start(minute int, at float64, t, c int32) {
	task, peer := &p.tasks[t], &p.peers[c]
	peer.running[peer.n] = t
	peer.n++
	task.started = at
	task.end = at + float64(task.pages)*p.r.w.minutesPerPage(task.channel, c)
	p.await(minute, t)
}

// await has step look at the task when it ends, in the next minute at the earliest.
func (p *paper) await(minute int, t int32) {
	p.ends.add(minute, p.tasks[t].end, t)
}

func (p *paper) step(minute int) {
	all := p.ends.take(minute)
	p.touchTasks(all)
	for _, t := range all {
		task := &p.tasks[t]
		switch {
		case task.crawler == nothing:
			p.release(t)
		case task.end > float64(minute): // more than once round
			p.await(minute, t)
		default:
			p.complete(minute, t)
		}
	}
	for c, m := range p.first {
		if int(m) <= minute {
			p.cancel(minute, int32(c))
		}
	}
	for {
		due, ok := p.lost.Next()
		if !ok || due > int64(minute) {
			return
		}
		_, channel := p.lost.Pop()
		p.r.over(minute, channel, recrawl.Lost)
	}
}

func (p *paper) touchTasks(all []int32) {
	n := 0
	for _, t := range all {
		task := &p.tasks[t]
		n += int(p.r.m.of[task.channel].last) + int(p.r.s.Facts(recrawl.Slot(task.channel)).Out)
		if task.crawler != nothing {
			n += int(p.peers[task.crawler].n)
		}
	}
	p.r.touched += n
}

func (p *paper) complete(minute int, t int32) {
	task := &p.tasks[t]
	c, end := task.crawler, task.end
	p.r.m.downloaded(minute, task.pages)
	p.r.updated(minute, task.channel, float32(task.started-float64(task.submitted)), float32(end-task.started))
	p.gone(t, c)
	p.release(t)
	p.fill(minute, end, c)
}

// gone takes a running task off its crawler.
func (p *paper) gone(t, c int32) {
	peer := &p.peers[c]
	for i := range peer.n {
		if peer.running[i] == t {
			peer.n--
			peer.running[i] = peer.running[peer.n]
			break
		}
	}
	p.loads[c]--
}

// fill gives a free thread the next waiting task that has not waited too long.
func (p *paper) fill(minute int, at float64, c int32) {
	peer := &p.peers[c]
	for peer.n < threads && peer.head != nothing {
		t := peer.head
		task := &p.tasks[t]
		peer.head = task.next
		p.queue--
		since := float64(task.submitted) + float64(task.enqueued)
		if at-since > float64(task.left) {
			p.loads[c]--
			p.drop(minute, t)
			continue
		}
		p.start(minute, max(at, since), t, c)
	}
	switch {
	case peer.head == nothing:
		peer.tail, p.first[c] = nothing, math.MaxInt32
	case !peer.mixed:
		p.first[c] = p.tasks[peer.head].until
	}
}

// cancel takes out of a crawler's queue what has waited too long.
func (p *paper) cancel(minute int, c int32) {
	peer := &p.peers[c]
	earliest := int32(math.MaxInt32)
	last, mixed := nothing, false
	for t := peer.head; t != nothing; {
		task := &p.tasks[t]
		next := task.next
		until := task.until
		if int(until) <= minute {
			if last == nothing {
				peer.head = next
			} else {
				p.tasks[last].next = next
			}
			p.queue--
			p.loads[c]--
			p.drop(minute, t)
		} else {
			mixed = mixed || last != nothing && until < p.tasks[last].until
			earliest = min(earliest, until)
			if last = t; !peer.mixed { // nor has any after it
				p.first[c] = earliest
				return
			}
		}
		t = next
	}
	peer.tail, peer.mixed = last, mixed
	p.first[c] = earliest
}

func (p *paper) leave(minute int, c int32, polite bool) {
	peer := &p.peers[c]
	running, n := peer.running, peer.n
	waiting := peer.head
	peer.n, peer.head, peer.tail, p.loads[c], p.first[c] = 0, nothing, nothing, dead, math.MaxInt32
	for _, t := range running[:n] {
		task := &p.tasks[t]
		task.crawler = nothing // its place in ends gives it back
		done := task.pages
		if task.end > float64(minute) {
			done *= float32(max(float64(minute)-task.started, 0) / (task.end - task.started))
		}
		p.r.m.downloaded(minute, done)
		if !polite {
			p.r.m.wasted += float64(done)
			p.missed(minute, task.channel)
			continue
		}
		moved := paperTask{channel: task.channel, pages: task.pages - done, left: task.left, submitted: task.submitted}
		p.r.m.migrations++
		p.place(minute, p.add(moved))
	}
	for t := waiting; t != nothing; {
		task := &p.tasks[t]
		next := task.next
		p.queue--
		if polite {
			task.left -= float32(minute) - float32(task.submitted) - task.enqueued
			p.r.m.migrations++
			p.place(minute, t)
		} else {
			p.drop(minute, t)
		}
		t = next
	}
}

// drop ends a task that no crawler runs.
func (p *paper) drop(minute int, t int32) {
	p.missed(minute, p.tasks[t].channel)
	p.release(t)
}

func (p *paper) release(t int32) {
	p.tasks[t].next = p.free
	p.free = t
}

// missed lets the manager find out about a lost task where it has to.
func (p *paper) missed(minute int, channel int32) {
	if p.r.cfg.Out > 0 || !p.r.limits {
		p.lost.Push(int64(minute+lossNotice), channel)
	}
}
