package archive

import (
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
)

// soFar is what the chunks of the crawl that runs have brought. A report tells only of what its runner did; where another one, or the same
// before it was started again, had done a part, this tells of the whole.
type soFar struct {
	begun                                            time.Time
	pages, fresh, changed, nearUnchanged, same, gone int
}

// claimed begins the count, unless something was brought already: then the crawl goes on.
func (f *soFar) claimed(now time.Time) {
	if f.pages == 0 {
		*f = soFar{begun: now}
	}
}

func (f *soFar) add(p *channel.Page) {
	if p.Status != 0 {
		f.pages++
	}
	switch p.Change {
	case channel.New:
		f.fresh++
	case channel.Changed:
		f.changed++
	case channel.NearUnchanged:
		f.nearUnchanged++
	case channel.Unchanged:
		f.same++
	case channel.Gone:
		f.gone++
	}
}

// complete makes a report one of the whole crawl, if it is only one of its last part. After one of a crawl that was stopped another is to come.
func (f *soFar) complete(r *channel.Report) {
	if f.pages <= r.Pages || r.Outcome == channel.Stopped || r.Outcome == channel.Refused {
		return
	}
	r.Pages, r.New, r.Changed, r.NearUnchanged, r.Unchanged, r.Gone = f.pages, f.fresh, f.changed, f.nearUnchanged, f.same, f.gone
	if !f.begun.IsZero() && f.begun.Before(r.Started) {
		r.Started = f.begun
	}
}

func (f *soFar) pb() *pb.SoFar {
	if *f == (soFar{}) {
		return nil
	}
	return &pb.SoFar{BegunUs: micros(f.begun), Pages: uint64(f.pages), New: uint64(f.fresh), Changed: uint64(f.changed),
		NearUnchanged: uint64(f.nearUnchanged), Unchanged: uint64(f.same), Gone: uint64(f.gone)}
}

func (f *soFar) parse(m *pb.SoFar) {
	*f = soFar{fromMicros(m.GetBegunUs()), int(m.GetPages()), int(m.GetNew()), int(m.GetChanged()), int(m.GetNearUnchanged()), int(m.GetUnchanged()), int(m.GetGone())}
}
