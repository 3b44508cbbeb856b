package archive

import (
	"encoding/json"
	"time"
)

// Stats is what an archive has done.
type Stats struct {
	Pages      uint64 `json:"pages"`      // payloads stored, ever
	Unchanged  uint64 `json:"unchanged"`  // visits that found what was stored, ever
	Chunks     uint64 `json:"chunks"`     // ever
	Bytes      uint64 `json:"bytes"`      // of payloads stored, ever
	Files      int    `json:"files"`      // WARC files
	Leases     int    `json:"leases"`     // that run
	Rejected   uint64 `json:"rejected"`   // chunks not on the head, or from behind the fence
	Mended     uint64 `json:"mended"`     // things that chunks said and the archive corrected
	Foreign    uint64 `json:"foreign"`    // pages outside their channel's scope, dropped
	Mismatched uint64 `json:"mismatched"` // pages said to be unchanged that are not stored, or whose digest is another
	Unreadable uint64 `json:"unreadable"` // damaged records that feed and exports left out, and those of which no text could be made
	Failures   uint64 `json:"failures"`   // writes that failed
	// Failing says that the last write failed; LastFailure and LastFailed why and when one last did.
	Failing     bool      `json:"failing"`
	LastFailure string    `json:"last_failure,omitempty"`
	LastFailed  time.Time `json:"last_failed,omitzero"`
	// Writing is since when the oldest write that has not ended goes on.
	Writing time.Time `json:"writing_since,omitzero"`
	// Unsettled is why what suspended peers have delivered is not withdrawn, or not given back to those who were pardoned.
	Unsettled string `json:"unsettled,omitempty"`
	// Work is what goes on of the upkeep that runs alone, and what waits for its end; nil: nothing does.
	Work    *Work   `json:"work,omitempty"`
	Damaged float64 `json:"damaged"`  // 1 when bytes of the database are not what was written
	Events  uint64  `json:"events"`   // changes of pages told in the feed, ever
	TextLag uint64  `json:"text_lag"` // of which text extraction has still to see
	// Pages that are there by how far what they show is believed, as they were counted last, at Counted; where that is zero they have not been counted.
	Provisional uint64    `json:"pages_provisional"`
	Verified    uint64    `json:"pages_verified"`
	Withdrawn   uint64    `json:"pages_withdrawn"`
	Held        uint64    `json:"pages_held"`
	Counted     time.Time `json:"pages_counted,omitzero"`

	TextDelay time.Duration `json:"-"` // since the first of these
}

// SlowWrite is for how long a write may go on before people are told.
const SlowWrite = 15 * time.Second

// WriteWait is for how long the oldest write goes on that has not ended: a disk, a database or a bucket that does not answer makes it grow.
func (s *Stats) WriteWait() time.Duration {
	if s.Writing.IsZero() {
		return 0
	}
	return max(0, time.Since(s.Writing))
}

// MarshalJSON adds TextDelay, in seconds, and leaves out how many pages there are while they have never been counted.
func (s Stats) MarshalJSON() ([]byte, error) {
	type figures Stats
	out := struct {
		figures
		Provisional *uint64 `json:"pages_provisional,omitempty"`
		Verified    *uint64 `json:"pages_verified,omitempty"`
		Withdrawn   *uint64 `json:"pages_withdrawn,omitempty"`
		Held        *uint64 `json:"pages_held,omitempty"`
		TextDelay   float64 `json:"text_delay_s"`
	}{figures: figures(s), TextDelay: s.TextDelay.Seconds()}
	if !s.Counted.IsZero() {
		out.Provisional, out.Verified, out.Withdrawn, out.Held = &s.Provisional, &s.Verified, &s.Withdrawn, &s.Held
	}
	return json.Marshal(out)
}

// Stats gives the figures as they are; those that are not of all times are since the archive was opened.
func (a *Archive) Stats() Stats {
	l, p := a.Ledger.Figures(), a.Pages.Figures()
	s := Stats{
		Pages: l.Pages, Unchanged: l.Unchanged, Chunks: l.Chunks, Bytes: l.Bytes, Files: a.Upkeep.Files(), Leases: l.Leases,
		Rejected: l.Rejected, Foreign: l.Foreign, Mended: l.Mended, Mismatched: p.Mismatched, Unreadable: p.Unreadable, Failures: l.Failures, Events: l.Events,
	}
	s.Failing, s.LastFailure, s.LastFailed = l.Failing, l.LastFailure, l.LastFailed
	s.Writing, s.Work = l.Writing, a.Work()
	if err := a.Unsettled(); err != nil {
		s.Unsettled = err.Error()
	}
	s.Provisional, s.Verified, s.Withdrawn, s.Held, s.Counted = p.Provisional, p.Verified, p.Withdrawn, p.Held, p.At
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
