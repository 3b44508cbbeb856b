package archive

import "time"

// Stats is what an archive has done.
type Stats struct {
	Pages      uint64        // payloads stored, ever
	Unchanged  uint64        // visits that found what was stored, ever
	Chunks     uint64        // ever
	Bytes      uint64        // of payloads stored, ever
	Files      int           // WARC files
	Leases     int           // that run
	Rejected   uint64        // chunks not on the head, or from behind the fence
	Mended     uint64        // things that chunks said and the archive corrected
	Foreign    uint64        // pages outside their channel's scope, dropped
	Mismatched uint64        // pages said to be unchanged that are not stored, or whose digest is another
	Failures   uint64        // writes that failed
	Damaged    float64       // 1 when bytes of the database are not what was written
	Events     uint64        // changes of pages told in the feed, ever
	TextLag    uint64        // of which text extraction has still to see
	TextDelay  time.Duration // since the first of these
}

// Stats gives the figures as they are; those that are not of all times are since the archive was opened.
func (a *Archive) Stats() Stats {
	l, p := a.Ledger.Figures(), a.Pages.Figures()
	s := Stats{
		Pages: l.Pages, Unchanged: l.Unchanged, Chunks: l.Chunks, Bytes: l.Bytes, Files: a.Upkeep.Files(), Leases: l.Leases,
		Rejected: l.Rejected, Foreign: l.Foreign, Mended: l.Mended, Mismatched: p.Mismatched, Failures: l.Failures, Events: l.Events,
	}
	if a.Damage() != nil {
		s.Damaged = 1
	}
	if l.Events > p.Texted {
		s.TextLag = l.Events - p.Texted
		if !p.Oldest.IsZero() {
			s.TextDelay = max(0, a.cfg.Clock().Sub(p.Oldest))
		}
	}
	return s
}
