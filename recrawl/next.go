package recrawl

import (
	"math"
)

const (
	sweepCells   = 1 << 17 // slots ranked again in one call of Next when a strategy asks for all
	refreshReady = 1 << 12 // ready slots whose values are refreshed in one tick, at most
	refreshShare = 4       // one in so many of them, if they are more than refreshFew: values change little in a few ticks
	refreshFew   = 64
	readNext     = 16 // slots taken between two looks ahead
	readFirst    = 85 // at so many: four levels of the heap
)

// Enough is what admit returns in place of a tick to end Next: the slot and those behind it stay in line until Next is called again.
const Enough Tick = math.MinInt32

// Next takes the slots that are due, best first, and returns how many. It calls admit for each, which makes the task, or says when to ask
// again, or Enough. admit must not call the scheduler.
func (s *Scheduler) Next(now Tick, load Load, admit func(Slot) (again Tick, ok bool)) int {
	if s.Ahead(now) > 0 {
		return 0
	}
	if s.now-now >= setBackLeast {
		s.setBack(now)
	}
	s.now = max(s.now, now)
	if s.opt.Relearn > 0 && now-s.relearnt >= s.opt.Relearn {
		s.relearnt = now
		s.groups.relearn()
	}
	if s.crowd.due(now) {
		s.fitCrowd()
	}
	if s.crowd.bring >= 0 {
		s.bringSome(now)
	}
	q := s.strategy.Quota(now, load)
	s.quota = q
	if q.Rerank {
		s.Rerank()
	}
	if s.sweep >= 0 {
		s.sweepSome()
	}
	if s.anyFound && (now > s.reordered || s.Ready() <= refreshReady) {
		s.reordered = now
		s.reorder()
	}
	s.wheel.advance(now, s.come)
	if q.Drift && now > s.refreshed {
		s.refreshed = now
		s.refresh()
	}
	room := load.Room
	if q.Max >= 0 && (room < 0 || q.Max < room) {
		room = q.Max
	}
	s.ready[0].floor, s.ready[1].floor = q.Floor, q.Floor
	var line sequencer = ordered{&s.ready[0], &s.ready[1]}
	share, mixed := s.Share(load.New)
	if mixed {
		s.mix.share = share
		line = &s.mix
	}
	taken, last := 0, float32(0)
	for looked := 0; taken != room; looked++ {
		if looked%readNext == 0 {
			s.touchNext()
		}
		top, ok := line.next()
		if !ok {
			break
		}
		at := top.slot()
		c := s.cells.at(at)
		isNew := c.Flags&inNew != 0
		c.Flags &^= inReady | inNew
		again, ok := admit(at)
		if !ok && again == Enough {
			s.place(at, c)
			s.mix.again(isNew)
			break
		}
		if !ok {
			s.wheel.add(at, c, max(again, now+1))
			s.mix.again(isNew)
			continue
		}
		taken++
		if !isNew {
			last = top.value()
		}
		s.submitted(now, at, c)
	}
	short := taken == room && (s.ready[0].waits() || s.ready[1].waits())
	s.strategy.Taken(now, taken, last, short)
	return taken
}

// touchNext reads the cells of those that are likely to be taken next.
func (s *Scheduler) touchNext() {
	for k := range s.ready {
		r := &s.ready[k]
		for _, item := range r.heap[:min(readFirst, len(r.heap))] {
			s.cells.touch(item.slot())
		}
		if s.opt.Ahead != nil {
			for _, item := range r.heap[:min(readFirst, len(r.heap))] {
				s.opt.Ahead(item.slot())
			}
		}
	}
}

// come takes a slot from the calendar when its tick has come.
func (s *Scheduler) come(at Slot, c *cell) { s.place(at, c) }

// rank is the strategy's rank, within the limits that hold for every strategy.
func (s *Scheduler) rank(at Slot, c *cell) (value float32, again Tick) {
	earliest := s.earliest(c)
	value, again = s.strategy.Rank(s.now, earliest, at, &c.Facts)
	if c.Submitted == 0 && value == math.MaxFloat32 && s.opt.Pending != nil {
		n := float64(max(s.opt.Pending(at), 0))
		value = float32(math.MaxFloat32 * (.5 + .5*n/(n+pendingHalf)))
	}
	return value, max(again, earliest)
}

// earliest is the first tick at which the limits allow a slot to be taken.
func (s *Scheduler) earliest(c *cell) Tick {
	if c.Submitted == 0 {
		return s.now
	}
	least := float64(s.limits.Least)
	if c.Flags&Denied != 0 && c.Out == 0 {
		return c.Submitted + wholeTicks(min(c.Est.Interval()*retryShare, max(least, retryMost)))
	}
	if s.limits.Cap > 0 {
		least = max(least, c.Est.Interval()/s.limits.Cap)
	}
	return c.Submitted + wholeTicks(least)
}

// retryShare is the part of its change interval after which a channel whose task was refused or lost may be asked for again. Nothing was
// crawled, so neither cap nor minimum interval holds the channel back; but the peers near it are as busy a minute later.
// A channel that changes once a month need not wait for days: it comes seldom, so that asking for it each hour costs little.
const (
	retryShare = 1. / 8
	retryMost  = 60 // ticks: an hour in the manager
)

// pendingHalf only has to keep the values of ordinary numbers of pending pages apart.
const pendingHalf = 1000

// Found says that Options.Pending has changed for a slot. Where many slots are ready, the slot moves at the next tick, together with others.
func (s *Scheduler) Found(at Slot) {
	if c := s.cells.at(at); c.Submitted != 0 || c.Flags&inReady == 0 {
		return
	}
	for int(at>>6) >= len(s.found) {
		s.found = append(s.found, make([]uint64, s.cells.n>>6+1-len(s.found))...)
	}
	s.found[at>>6] |= 1 << (at & 63)
	s.anyFound = true
}

// reorder ranks the slots again that Found named, in one pass over all ready slots, since a slot's place among them is not kept.
func (s *Scheduler) reorder() {
	for k := range s.ready {
		r := &s.ready[k]
		for i := 0; i < len(r.heap); {
			at := r.heap[i].slot()
			if int(at>>6) >= len(s.found) || s.found[at>>6]&(1<<(at&63)) == 0 {
				i++
				continue
			}
			s.found[at>>6] &^= 1 << (at & 63) // the slot that has moved to i comes next
			s.again(r, i)
		}
	}
	clear(s.found)
	s.anyFound = false
}

// place puts a slot that is not ready where it belongs: calendar, ready or nowhere.
func (s *Scheduler) place(at Slot, c *cell) {
	if c.Flags&(Paused|gone) != 0 || s.opt.MaxOut > 0 && int(c.Out) >= s.opt.MaxOut {
		if c.Flags&inWheel != 0 {
			s.wheel.remove(c)
		}
		return
	}
	value, again := s.rank(at, c)
	if c.Flags&inWheel != 0 {
		if again == c.due {
			return
		}
		s.wheel.remove(c)
	}
	if again <= s.wheel.at { // due within the time that the calendar has passed
		c.Flags |= inReady
		if c.Updated == 0 {
			c.Flags |= inNew
		}
		s.readyOf(c).push(at, value)
		return
	}
	s.wheel.add(at, c, again)
}

// readyOf is the queue that a ready slot is in.
func (s *Scheduler) readyOf(c *cell) *ready {
	if c.Flags&inNew != 0 {
		return &s.ready[1]
	}
	return &s.ready[0]
}

func (s *Scheduler) unplace(at Slot, c *cell) {
	if c.Flags&inWheel != 0 {
		s.wheel.remove(c)
	}
	if c.Flags&inReady != 0 {
		s.readyOf(c).remove(at)
		c.Flags &^= inReady | inNew
	}
}

// sweepSome ranks a part of all slots again.
func (s *Scheduler) sweepSome() {
	end := min(s.sweep+sweepCells, s.cells.n)
	for i := s.sweep; i < end; i++ {
		c := s.cells.at(Slot(i))
		if c.Flags&inReady == 0 {
			s.place(Slot(i), c)
		}
	}
	s.sweep = end
	if end == s.cells.n {
		s.sweep = -1
		for k := range s.ready {
			for i := len(s.ready[k].heap) - 1; i >= 0; i-- {
				s.again(&s.ready[k], i)
			}
		}
	}
}

// refresh brings the values of some ready slots up to date, in turn, or of all of them when they are few.
func (s *Scheduler) refresh() {
	for k := range s.ready {
		r := &s.ready[k]
		n := len(r.heap)
		for i := range min(n, max(n/refreshShare, refreshFew), refreshReady/len(s.ready)) {
			if r.cursor <= 0 {
				r.cursor = len(r.heap)
			}
			if i%readNext == 0 {
				for _, item := range r.heap[max(min(r.cursor, len(r.heap))-readNext, 0):min(r.cursor, len(r.heap))] {
					s.cells.touch(item.slot())
				}
			}
			r.cursor--
			if r.cursor < len(r.heap) {
				s.again(r, r.cursor)
			}
		}
	}
}

// again ranks ready slot i again.
func (s *Scheduler) again(r *ready, i int) {
	at := r.heap[i].slot()
	c := s.cells.at(at)
	value, again := s.rank(at, c)
	if again > s.now {
		r.removeAt(i)
		c.Flags &^= inReady | inNew
		s.wheel.add(at, c, again)
		return
	}
	r.heap[i] = newReadyItem(value, at)
	r.fix(i)
}
