package manager

import (
	"slices"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/dispatch"
	"shoal/manager/trust"
	"shoal/recrawl"
)

// errand is a small task beside the channels' crawls: a list of pages of one channel, whose content is wanted as another peer sees it. To the peer that
// has it it is a crawl of that channel, of which these pages are left. What it brings goes to the archive's evidence room.
type errand struct {
	host    string
	pages   []wanted
	apart   []trust.Peer // from whom the peer that takes it must be apart
	dispute *dispute     // that wants it; nil: it is an audit
	turn    int          // which of the dispute's checkers it is
	fresh   bool         // it is for what a newcomer delivered
	until   time.Time    // when it is of no use any more
	retry   time.Time    // before which it is not offered again
	refused int          // how often no peer took it
	above   channel.Gen  // the generations of its channel that the archive knows
	// Under which another manager had it out that has gone; 0: none had. What comes of it there answers it.
	was    channel.ID
	wasGen channel.Gen
}

// errands hands them out. Each takes a place of a small pool while it is out. A place has a slot and a channel id of its own, above those of
// channels, so that the dispatcher keeps politeness, leases and shares with errands as with channels, and the archive has a lane for it. No peer sees
// these numbers. Owned by the loop.
type errands struct {
	*core
	first   channel.ID // of the places. Managers of one database have places of their own
	places  [errandPlaces]errandPlace
	waits   []*errand // for a place, or to be offered again
	budget  float64   // pages that may be asked for now
	kept    float64   // of these, for what others than newcomers delivered
	counts  ErrandCounts
	answers func(now time.Time, e *errand, id channel.ID, gen channel.Gen, peer string)
	gaveUp  func(now time.Time, e *errand)
}

type errandPlace struct {
	errand *errand         // nil: the place is free
	host   channel.HostKey // of the last errand: of that one a task may still be out when it has been answered
	issue  lease.Issue     // as the dispatcher had it last: generations grow from one errand to the next
}

// ErrandCounts are sums since the manager's start.
type ErrandCounts struct {
	Asked, Answered, Late, Dropped int64 // pages: wanted; seen; that nobody could look at in time; beyond what may be asked for
}

// Limits of errands.
const (
	errandPlaces  = 256
	errandWaiting = 4096             // errands that wait for a place
	errandShare   = .025             // of delivered pages, that may be asked for again
	errandFirst   = 8                // pages that may be asked for at the start
	errandBurst   = trust.MostAudits // and at once, later
	errandRetry   = 5 * time.Second  // until an errand that was refused is offered again
	errandGap     = 10 * time.Second // beyond its term, after which a place is free again whatever became of its task
	errandURLs    = 8                // of one errand

	// errandSlot is the first slot of errands, and errandID their first channel id. Neither a scheduler nor a database comes so far.
	errandSlot = recrawl.Slot(1 << 31)
	errandID   = channel.ID(1 << 62)
)

func isErrand(s recrawl.Slot) bool { return s >= errandSlot }

// slotOf is the slot of an errand's channel id.
func (er *errands) slotOf(id channel.ID) (recrawl.Slot, bool) {
	if id < er.first || id >= er.first+errandPlaces {
		return 0, false
	}
	return errandSlot + recrawl.Slot(id-er.first), true
}

// idOf is the channel id of an errand's slot.
func (er *errands) idOf(s recrawl.Slot) channel.ID { return er.first + channel.ID(s-errandSlot) }

// at is the place of a slot.
func (er *errands) at(s recrawl.Slot) *errandPlace { return &er.places[s-errandSlot] }

// hostOf is the host of the errand that is out under a channel id; empty: there is none.
func (er *errands) hostOf(id channel.ID) string {
	s, ok := er.slotOf(id)
	if !ok || er.at(s).errand == nil {
		return ""
	}
	return er.at(s).errand.host
}

// allow raises what may be asked for by what was delivered. Half of what others than newcomers deliver is kept for that: of a newcomer's task so many pages are to be
// looked at that new identities by the dozen would leave nothing for those behind whom a liar hides.
func (er *errands) allow(pages int, fresh bool) {
	more := errandShare * float64(pages)
	if er.budget = min(er.budget+more, errandBurst); !fresh {
		er.kept = min(er.kept+more/2, errandBurst/2)
	}
}

// left is what may be asked for now.
func (er *errands) left(fresh bool) float64 {
	if fresh {
		return er.budget - er.kept
	}
	return er.budget
}

// ask has an errand run, unless there are too many. It reports whether it will be.
func (er *errands) ask(e *errand) bool {
	if len(er.waits) >= errandWaiting {
		er.counts.Dropped += int64(len(e.pages))
		return false
	}
	if e.dispute == nil { // disputes are few where nobody lies
		if n := int(er.left(e.fresh)); n > 0 && n < len(e.pages) { // some of them: else newcomers, of whose tasks many pages are asked for, would hardly be checked
			er.counts.Dropped += int64(len(e.pages) - n)
			e.pages = e.pages[:n]
		}
		if !er.spend(len(e.pages), e.fresh) {
			return false
		}
	} else {
		er.counts.Asked += int64(len(e.pages))
	}
	er.waits = append(er.waits, e)
	return true
}

// spend takes pages off what may be asked for, if there is as much left.
func (er *errands) spend(n int, fresh bool) bool {
	if er.left(fresh) < float64(n) {
		er.counts.Dropped += int64(n)
		return false
	}
	if er.budget -= float64(n); !fresh {
		er.kept = max(er.kept-float64(n), 0)
	}
	er.counts.Asked += int64(n)
	return true
}

// tick gives waiting errands places, and takes them from those whose time is over.
func (er *errands) tick(now time.Time) {
	for i := range er.places {
		p, s := &er.places[i], errandSlot+recrawl.Slot(i)
		if p.errand == nil {
			continue
		}
		if end := p.errand.until; now.After(end) && (!er.machine.IsOut(s) || now.After(end.Add(er.cfg.Terms.Term+errandGap))) {
			e := p.errand
			if er.machine.IsOut(s) { // nothing was heard of it: its lease may have been lengthened, by a term at most as it is a few pages
				er.machine.Leave(channel.KeyOf(e.host), end.Add(2*er.cfg.Terms.Term+errandGap))
			}
			er.machine.Forget(s)
			p.errand = nil
			er.late(now, e)
		}
	}
	if len(er.waits) == 0 {
		return
	}
	waits := er.waits
	er.waits = nil // late may ask for more
	next := 0
	for _, e := range waits {
		if now.After(e.until) {
			er.late(now, e)
			continue
		}
		if !now.Before(e.retry) {
			for next < errandPlaces && !er.begin(now, next, e) {
				next++
			}
			if next++; next <= errandPlaces {
				continue
			}
		}
		er.waits = append(er.waits, e)
	}
}

// begin puts an errand into a place, if that is free: of its last task nothing can be out any more.
func (er *errands) begin(now time.Time, i int, e *errand) bool {
	p, s := &er.places[i], errandSlot+recrawl.Slot(i)
	if p.errand != nil || er.machine.IsOut(s) {
		return false
	}
	p.errand = e
	if er.machine.CrawlNow(now, s) != nil {
		p.errand = nil
		return false
	}
	return true
}

// drop forgets those of hosts that another manager has now, which has read of them. What is out goes on: what comes of it is heard here.
func (er *errands) drop(given func(*errand) bool) {
	er.waits = slices.DeleteFunc(er.waits, given)
	for i := range er.places {
		if p, s := &er.places[i], errandSlot+recrawl.Slot(i); p.errand != nil && !er.machine.IsOut(s) && given(p.errand) {
			er.machine.Forget(s)
			p.errand = nil
		}
	}
}

func (er *errands) late(now time.Time, e *errand) {
	er.counts.Late += int64(len(e.pages))
	er.gaveUp(now, e)
}

// refused has an errand offered again later that no peer took.
func (er *errands) refused(now time.Time, s recrawl.Slot, e *errand) {
	p := er.at(s)
	if p.errand == nil || p.errand != e || er.machine.IsOut(s) { // another one is there by now, or a peer has claimed it after all
		return
	}
	er.machine.Forget(s)
	p.errand.refused++
	p.errand.retry = now.Add(errandRetry * time.Duration(p.errand.refused))
	er.waits = append(er.waits, p.errand)
	p.errand = nil
}

// heard takes in that the archive has told of an errand's task.
func (er *errands) heard(now time.Time, s recrawl.Slot, e lease.Event, peer string, effect lease.Effect) {
	p := er.at(s)
	if p.errand == nil || e.Kind != lease.Reported || effect&lease.Apply == 0 {
		return
	}
	done := p.errand
	p.errand, p.host = nil, channel.KeyOf(done.host)
	er.counts.Answered += int64(len(done.pages))
	er.answers(now, done, er.idOf(s), e.Gen, peer)
}

// heardElsewhere takes in that the archive has told of a task by which a manager that has gone had an errand out which waits here.
func (er *errands) heardElsewhere(now time.Time, id channel.ID, e lease.Event, peer string) {
	if id < errandID || e.Kind != lease.Reported {
		return
	}
	i := slices.IndexFunc(er.waits, func(w *errand) bool { return w.was == id && w.wasGen == e.Gen })
	if i < 0 {
		return
	}
	done := er.waits[i]
	er.waits = slices.Delete(er.waits, i, i+1)
	er.counts.Answered += int64(len(done.pages))
	er.answers(now, done, id, e.Gen, peer)
}

// has reports whether an errand waits here or is out that looks at a page for the same reason.
func (er *errands) has(c *trust.Case) bool {
	same := func(e *errand) bool {
		return e != nil && e.dispute == nil && slices.ContainsFunc(e.pages, func(w wanted) bool { return w.c == *c })
	}
	for i := range er.places {
		if same(er.places[i].errand) {
			return true
		}
	}
	return slices.ContainsFunc(er.waits, same)
}

// waiting is how many pages wait to be looked at.
func (er *errands) waiting() (n int) {
	for _, e := range er.waits {
		n += len(e.pages)
	}
	for i := range er.places {
		if e := er.places[i].errand; e != nil {
			n += len(e.pages)
		}
	}
	return n
}

// job is an errand's on its way to a peer. To that peer it is of the channel whose pages it is for, in a generation that no other task of the channel gets, and may
// wait for its start as long as that channel's tasks. The archive has it claimed no later than what it is for allows.
func (er *errands) job(o dispatch.Order, host *channel.Host) (job, bool) {
	p := er.at(o.Slot)
	if p.errand == nil {
		return job{}, false
	}
	p.issue = o.Issue
	of, ok := er.table.Find(p.errand.pages[0].c.Channel)
	if !ok {
		return job{}, false // removed meanwhile
	}
	before := er.machine.Gen(of)
	gen, err := er.machine.Reserve(of, p.errand.above)
	if err != nil {
		er.log.Debug("an errand has no generation", "host", p.errand.host, "err", err)
		return job{}, false
	}
	er.whole.skipped(er.table.ID(of), before, gen)
	told := o.Issued.Add(er.machine.WaitLimit(of))
	for _, end := range []time.Time{p.errand.until, told} {
		if o.Latest.After(end) {
			o.Latest = end
		}
	}
	return job{Order: o, id: er.idOf(o.Slot), host: host, errand: p.errand, as: gen, told: told}, true
}

// outran takes in that the archive knows higher generations of the channel of an errand.
func (er *errands) outran(now time.Time, j job, highest channel.Gen) {
	j.errand.above = highest
	er.machine.Unsent(now, j.Order, unsentRetry)
}

// dues is the scheduler without errands, of which it knows nothing.
type dues struct{ *recrawl.Scheduler }

// Observe implements dispatch.Due.
func (d dues) Observe(now recrawl.Tick, s recrawl.Slot, e recrawl.Event) {
	if !isErrand(s) {
		d.Scheduler.Observe(now, s, e)
	}
}

// Edit implements dispatch.Due.
func (d dues) Edit(s recrawl.Slot, change func(*recrawl.Facts)) {
	if !isErrand(s) {
		d.Scheduler.Edit(s, change)
	}
}

// Facts implements dispatch.Due. An errand that is refused is not offered again by the dispatcher, as a channel that was crawled before is not.
func (d dues) Facts(s recrawl.Slot) recrawl.Facts {
	if isErrand(s) {
		return recrawl.Facts{Updated: 1, Group: 255}
	}
	return d.Scheduler.Facts(s)
}
