package recrawl

// Hold is what keeps a slot from being crawled now.
type Hold uint8

// The holds.
const (
	NotStale Hold = iota // its copy is there, and more probably fresh than stale
	Early                // likewise, and neither minimum interval nor cap allow a crawl yet
	Rests                // it is paused
	Under                // a task of it is out
	TooSoon              // the minimum interval is not over
	AtCap                // nor is that which the cap leaves, which is longer
	Denial               // its last task was refused or lost, and it is asked for again in a while
	Strict               // the strategy goes by its own intervals, whatever is stale
	Free                 // nothing: it may be taken
)

// Hold says what keeps a slot from being crawled now, first of all that its copy is probably fresh.
func (s *Scheduler) Hold(now Tick, at Slot) Hold {
	s.now = max(s.now, now)
	c := s.cells.at(at)
	switch {
	case c.Flags&(Paused|gone) != 0:
		return Rests
	case c.Updated > 0 && !s.stale(c) && s.now < s.earliest(c):
		return Early
	case c.Updated > 0 && !s.stale(c):
		return NotStale
	case c.Out > 0:
		return Under
	case s.now >= s.earliest(c) && s.quota.Strict && c.Flags&inReady == 0:
		return Strict
	case s.now >= s.earliest(c):
		return Free
	case c.Flags&Denied != 0:
		return Denial
	case s.now >= c.Submitted+s.limits.Least:
		return AtCap
	}
	return TooSoon
}

// Due is the tick at which a slot is taken next, or looked at again, unless threads are idle or there is no room; a tick that has passed: it may be taken now. A
// slot that is paused or out is never due.
func (s *Scheduler) Due(now Tick, at Slot) Tick {
	s.now = max(s.now, now)
	c := s.cells.at(at)
	switch {
	case c.Flags&(Paused|gone) != 0, s.opt.MaxOut > 0 && int(c.Out) >= s.opt.MaxOut:
		return Far
	case c.Flags&inReady != 0:
		return now
	}
	_, again := s.rank(at, c)
	return again
}

// Limits are those in force.
func (s *Scheduler) Limits() Limits { return s.limits }
