package recrawl

// The clock that gives the ticks may have been ahead for a while, here or at a manager whose channels have come over. What was dated then would keep channels from
// being crawled until that time comes, be it days. So it counts as of now.

// Where the clock was set back, a tick is earlier than the last one by so much. Calls overtake each other by less. By more than a month of minutes it is rather
// the present clock that is wrong, as that of a computer which has just started and knows no time: then nothing is changed, and
// nothing handed out: the limits are counted from the last tick, and would hold nothing back.
const (
	setBackLeast = 10
	setBackMost  = 30 * 1440
)

// Ahead is by how much the last tick is later than now, if that is more than a clock that was set back explains; else 0. Next takes nothing then: the clock is
// to be set right, or, if it is right, the owner starts anew.
func (s *Scheduler) Ahead(now Tick) Tick {
	if ahead := s.now - now; ahead > setBackMost {
		return ahead
	}
	return 0
}

// DatedBy has nothing be dated later than now. The owner calls it before Add.
func (f *Facts) DatedBy(now Tick) {
	for _, t := range []*Tick{&f.Submitted, &f.Updated, &f.Signalled} {
		if ahead := *t - now; ahead > 0 && ahead <= setBackMost {
			*t = now
		}
	}
}

// Future is by how much f is dated later than now, if that is more than DatedBy changes; else 0. It is of a channel that is not crawled before that time comes.
func (f *Facts) Future(now Tick) Tick {
	if ahead := max(f.Submitted, f.Updated, f.Signalled) - now; ahead > setBackMost {
		return ahead
	}
	return 0
}

// Redate is DatedBy where somebody has said that the present clock is right: nothing stays dated later than now, by however much.
func (f *Facts) Redate(now Tick) {
	f.Submitted, f.Updated, f.Signalled = min(f.Submitted, now), min(f.Updated, now), min(f.Signalled, now)
}

// setBack goes on at an earlier tick. The strategy starts anew there with what it has learnt, and all slots are ranked again.
func (s *Scheduler) setBack(now Tick) {
	s.now, s.relearnt, s.refreshed, s.reordered = now, min(s.relearnt, now), min(s.refreshed, now), min(s.reordered, now)
	s.wheel = newCalendar(&s.cells)
	s.wheel.at = now - 1
	for k := range s.ready {
		s.ready[k].heap, s.ready[k].cursor = s.ready[k].heap[:0], 0
	}
	for i := range s.cells.n {
		if c := s.cells.at(Slot(i)); c.Flags&gone == 0 {
			c.Flags &^= inWheel | inReady | inNew
			c.DatedBy(now)
		}
	}
	s.strategy.Start(now, s.setting(true))
	s.Rerank()
}

// setBack drops what is dated later than now.
func (p *pauses) setBack(now Tick) {
	p.seen, p.lost = min(p.seen, now), min(p.lost, now)
	for i := range p.all {
		p.all[i].from, p.all[i].to = min(p.all[i].from, now), min(p.all[i].to, now)
	}
}
