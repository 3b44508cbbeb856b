package recrawl

import (
	"cmp"
	"math"
	"slices"
)

// Threads that stand idle while the strategy wants nothing may take what is probably stale. A strategy learns what the swarm can do from what
// becomes of its tasks, and until then, or after the swarm has grown, it asks for too little.

const (
	spareLook  = 1 << 11  // slots looked at in one call of Spare, at most
	spareEach  = 32       // for each thread that it is called for
	spareKeep  = 1 << 9   // slots found that wait for the next calls
	spareStale = math.Ln2 // changes expected since the last update, from which on a copy is more probably stale than fresh
)

// spares is what Spare has found and not yet given away.
type spares struct {
	found  []spare // the best one last
	cursor int     // slot to look at next
	looked int     // slots looked at since something was last taken
	at     Tick
	left   []Slot // in this tick the caller had no place for them, or the strategy kept them; at most spareKeep
}

type spare struct {
	at    Slot
	new   bool
	value float32
}

// Spare takes up to n slots that the strategy does not want yet, for threads that would stand idle, and returns how many: those never crawled
// first, then those that are probably stale, each kind in the strategy's order. No slot is taken before the limits allow it. It looks at some
// slots for each thread in a call, and at no slot twice in a tick while nothing is taken. Call it after Next. may says whether a slot can be crawled now at all,
// if a peer has room: it is not asked for otherwise, nor does it count as Lacking. admit is as in Next. A strategy with Quota.Strict keeps its slots.
func (s *Scheduler) Spare(now Tick, n int, may func(Slot) bool, admit func(Slot) (again Tick, ok bool)) int {
	s.now = max(s.now, now)
	v := &s.spares
	if n <= 0 {
		return 0
	}
	if now != v.at {
		v.at, v.looked, v.found, v.left = now, 0, v.found[:0], v.left[:0]
	}
	if len(v.found) == 0 {
		s.findSpares(min(n*spareEach, spareLook))
	}
	if s.quota.Strict {
		for len(v.found) > 0 && len(v.left) < spareKeep {
			v.left = append(v.left, v.pop())
		}
		return 0
	}
	taken := 0
	for taken < n && len(v.found) > 0 {
		at := v.pop()
		c := s.cells.at(at)
		if !s.sparable(c) || !may(at) {
			continue
		}
		again, ok := admit(at)
		if !ok {
			if len(v.left) < spareKeep {
				v.left = append(v.left, at)
			}
			if again == Enough {
				break
			}
			continue
		}
		taken++
		v.looked = 0
		s.unplace(at, c)
		s.submitted(now, at, c)
	}
	return taken
}

// pop takes the best slot that was found.
func (v *spares) pop() Slot {
	last := len(v.found) - 1
	at := v.found[last].at
	v.found = v.found[:last]
	return at
}

// Lacking says whether Spare had slots in this tick for which there was no place, or that the strategy keeps, and that are still missing or probably stale and may be
// crawled: those that were taken since, as for a thread elsewhere, are not lacking.
func (s *Scheduler) Lacking(may func(Slot) bool) bool {
	v := &s.spares
	v.left = slices.DeleteFunc(v.left, func(at Slot) bool { return !s.sparable(s.cells.at(at)) })
	return slices.ContainsFunc(v.left, may)
}

// Take takes a slot that Next has offered and whose admit said to ask again later, if it may be taken still. admit is as there.
func (s *Scheduler) Take(now Tick, at Slot, admit func(Slot) (again Tick, ok bool)) bool {
	s.now = max(s.now, now)
	c := s.cells.at(at)
	if c.Flags&(Paused|gone) != 0 || s.opt.MaxOut > 0 && int(c.Out) >= s.opt.MaxOut || s.now < s.earliest(c) {
		return false
	}
	if _, ok := admit(at); !ok {
		return false
	}
	s.unplace(at, c)
	s.submitted(now, at, c)
	return true
}

// submitted counts a task of a slot that is not ready.
func (s *Scheduler) submitted(now Tick, at Slot, c *cell) {
	s.strategy.Observe(now, at, &c.Facts, Event{Kind: Submitted})
	c.Submitted = now
	if c.Out < 255 {
		c.Out++
	}
	s.place(at, c)
}

// findSpares looks at the next slots.
func (s *Scheduler) findSpares(look int) {
	v := &s.spares
	for range min(look, s.cells.n-v.looked) {
		if v.cursor >= s.cells.n {
			v.cursor = 0
		}
		at := Slot(v.cursor)
		v.cursor++
		v.looked++
		c := s.cells.at(at)
		if !s.sparable(c) {
			continue
		}
		value, _ := s.rank(at, c)
		v.found = append(v.found, spare{at, c.Updated == 0, value})
		if len(v.found) == spareKeep {
			break
		}
	}
	slices.SortFunc(v.found, func(a, b spare) int {
		switch {
		case a.new != b.new && b.new:
			return -1
		case a.new != b.new:
			return 1
		}
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(b.at, a.at))
	})
}

// sparable says whether an idle thread may take a slot: nothing of it is out, the limits allow it, and its copy is missing or probably stale.
func (s *Scheduler) sparable(c *cell) bool {
	if c.Flags&(Paused|gone) != 0 || c.Out > 0 || s.now < s.earliest(c) {
		return false
	}
	return c.Updated == 0 || s.stale(c)
}

// stale says whether a copy is more probably stale than fresh.
func (s *Scheduler) stale(c *cell) bool {
	return c.Signalled > 0 || float64(s.now-c.Updated)*c.Est.Rate() >= spareStale
}

// usage is how much of what peers offer was used since it was reset.
type usage struct {
	at            Tick
	busy, offered float64 // threads, over the ticks
	asleep        Tick    // ticks in which nobody told of them: see pauses
}

// see takes in the threads as they are now; a caller that does not know them tells none.
func (u *usage) see(now Tick, l Load) {
	switch ticks := float64(now - u.at); {
	case u.at == 0 || now <= u.at:
	case now-u.at >= leastPause:
		u.asleep += now - u.at
	case l.Threads > 0:
		if l.Share > 0 {
			ticks *= l.Share // the others are other managers'
		}
		u.offered += ticks * float64(l.Threads)
		u.busy += ticks * float64(l.Threads-min(l.Idle, l.Threads))
	}
	u.at = now
}

func (u *usage) reset() { u.busy, u.offered, u.asleep = 0, 0, 0 }

// awake is how many ticks have passed since then in which somebody told of threads; 1 at least. It was reset then.
func (u *usage) awake(now, since Tick) float64 { return max(float64(now-since-u.asleep), 1) }

// offer is how many threads peers have offered on average.
func (u *usage) offer(now, since Tick) float64 { return u.offered / u.awake(now, since) }

// mostSpare bounds how many times what was used a strategy may think that peers can do.
const mostSpare = 4

// factor is how many times what was used peers have offered: 1 where that is not known.
func (u *usage) factor() float64 {
	if u.offered == 0 {
		return 1
	}
	return min(u.offered/max(u.busy, u.offered/mostSpare), mostSpare)
}
