package manager

import (
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/dispatch"
	"shoal/recrawl"
)

// pace foretells how long a channel's next task takes. Owned by the loop.
type pace struct {
	*core
	perPage time.Duration // of late, waits included
}

const (
	firstPage    = 100 * time.Millisecond // guessed time of a fetch beside the gap
	budgetGrowth = 4                      // of the page budget after a crawl that it ended
	pacePages    = 8                      // pages of a crawl that tells how long a page takes
)

// learn takes in a crawl that ended well.
func (p *pace) learn(r *channel.Report) {
	if took := r.Ended.Sub(r.Started); took > 0 && r.Pages >= pacePages {
		p.perPage += (took/time.Duration(r.Pages) - p.perPage) / 8
	}
}

// expect is how long a task of a channel takes at most, by what was learnt: its last one, more of it where that left URLs for want of budget; a
// channel's first task by its page budget and what a page takes nowadays.
func (p *pace) expect(s recrawl.Slot) time.Duration {
	if isErrand(s) {
		return 2 * max(p.perPage, p.cfg.Gap+firstPage)
	}
	d := time.Duration(p.cfg.FirstBudget) * max(p.perPage, p.cfg.Gap+firstPage)
	if service := p.sched.Facts(s).Service.Float(); service > 0 {
		d = time.Duration(float64(service) * float64(p.cfg.Tick))
		if p.table.Grows(s) {
			d *= budgetGrowth
		}
	}
	return d*3/2 + 2*p.cfg.Tick
}

// pages is about how many pages a channel's next task has, by how long the last one took.
func (p *pace) pages(s recrawl.Slot) int {
	if isErrand(s) {
		return 1
	}
	if service := p.sched.Facts(s).Service.Float(); service > 0 {
		return int(float64(service) * float64(p.cfg.Tick) / float64(max(p.perPage, p.cfg.Gap+firstPage)))
	}
	return p.cfg.FirstBudget
}

// size is about how many pages a channel has: as its last task took, or, if it was never crawled, as links told; 1 if nothing is known.
func (p *pace) size(s recrawl.Slot) int {
	if isErrand(s) || p.sched.Facts(s).Service.Float() > 0 {
		return max(p.pages(s), 1)
	}
	return min(max(p.table.Links(s), 1), p.cfg.FirstBudget)
}

// book is what the machine looks up of channels.
type book struct {
	*dispatch.Table
	keep    *keeper
	pace    *pace
	errands *errands
}

// Host implements dispatch.Channels.
func (b book) Host(s recrawl.Slot) channel.HostKey {
	if isErrand(s) {
		p := b.errands.at(s)
		if p.errand != nil {
			return channel.KeyOf(p.errand.host)
		}
		return p.host
	}
	return b.Table.Host(s)
}

// Issue implements dispatch.Channels.
func (b book) Issue(s recrawl.Slot) (lease.Issue, error) {
	if isErrand(s) {
		return b.errands.at(s).issue, nil
	}
	return b.keep.issue(s)
}

// Expect implements dispatch.Channels.
func (b book) Expect(s recrawl.Slot) time.Duration { return b.pace.expect(s) }
