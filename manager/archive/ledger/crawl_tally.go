package ledger

import (
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/schema"
)

// crawlTally is what the chunks of the crawl that runs have brought. A report tells only of what its runner did; where another one, or the same
// before it was started again, had done a part, this tells of the whole.
type crawlTally struct {
	begun                                            time.Time
	pages, fresh, changed, nearUnchanged, same, gone int
}

// claimed begins the count, unless something was brought already: then the crawl goes on.
func (t *crawlTally) claimed(now time.Time) {
	if t.pages == 0 {
		*t = crawlTally{begun: now}
	}
}

func (t *crawlTally) add(p *channel.Page) {
	if p.Status != 0 {
		t.pages++
	}
	switch p.Change {
	case channel.New:
		t.fresh++
	case channel.Changed:
		t.changed++
	case channel.NearUnchanged:
		t.nearUnchanged++
	case channel.Unchanged:
		t.same++
	case channel.Gone:
		t.gone++
	}
}

// complete makes a report one of the whole crawl, if it is only one of its last part. After one of a crawl that was stopped another is to come.
func (t *crawlTally) complete(r *channel.Report) {
	if t.pages <= r.Pages || r.Outcome == channel.Stopped || r.Outcome == channel.Refused {
		return
	}
	r.Pages, r.New, r.Changed, r.NearUnchanged, r.Unchanged, r.Gone = t.pages, t.fresh, t.changed, t.nearUnchanged, t.same, t.gone
	if !t.begun.IsZero() && t.begun.Before(r.Started) {
		r.Started = t.begun
	}
}

// brought is how many pages tell something. Of a crawl that brought none its peer says that it failed.
func (t *crawlTally) brought() int { return t.fresh + t.changed + t.nearUnchanged + t.same + t.gone }

func (t *crawlTally) stored() *pb.SoFar {
	if *t == (crawlTally{}) {
		return nil
	}
	return &pb.SoFar{BegunUs: schema.Micros(t.begun), Pages: uint64(t.pages), New: uint64(t.fresh), Changed: uint64(t.changed),
		NearUnchanged: uint64(t.nearUnchanged), Unchanged: uint64(t.same), Gone: uint64(t.gone)}
}

func (t *crawlTally) parse(m *pb.SoFar) {
	*t = crawlTally{schema.Time(m.GetBegunUs()), int(m.GetPages()), int(m.GetNew()), int(m.GetChanged()), int(m.GetNearUnchanged()), int(m.GetUnchanged()), int(m.GetGone())}
}
