package crawl

import (
	"net/http"
	"strings"
	"time"

	"shoal/channel"
)

// What sitemaps and feeds say is used three ways: what they call new or changed is fetched first and whole, what has not changed since
// it was stored comes last, where a budget cuts it off, and the report counts how many pages were called so ("signalled") and how many
// of them were ("signal-right").

// news is what a sitemap or a feed says of a page, against the stored copy. Smaller is fetched earlier.
type news int

const (
	fresh news = iota - 1 // it is new, or has changed since
	none                  // nothing that helps
	stale                 // it has not changed since
)

// Bounds of signals.
const (
	maxFeeds  = 3      // feeds of a crawl that are fetched as soon as a page names them
	maxSoon   = 1000   // pages that wait before the to-do list
	maxSignal = 10_000 // pages whose signal is remembered
)

// moment is a time as somebody wrote it: from some instant up to, for a date, the end of it. The zero value is none.
type moment struct{ from, to time.Time }

var momentForms = []struct {
	layout string
	lasts  time.Duration
}{
	{time.RFC3339, 0}, {"2006-01-02T15:04Z07:00", time.Minute}, {"2006-01-02T15:04:05Z0700", 0}, {time.DateOnly, 24 * time.Hour}, {"2006-01", 31 * 24 * time.Hour},
	{"2006", 366 * 24 * time.Hour}, {"Mon, 2 Jan 2006 15:04:05 MST", 0}, {"Mon, 2 Jan 2006 15:04:05 -0700", 0}, {"2 Jan 2006 15:04:05 MST", 0},
	{"2 Jan 2006 15:04:05 -0700", 0}, {"Mon, 2 Jan 06 15:04:05 MST", 0}, {"Mon, 2 Jan 06 15:04:05 -0700", 0}, {"2006-01-02T15:04:05", 0}, {time.DateTime, 0},
}

// anywhere is how far local times are from each other at most.
const anywhere = 14 * time.Hour

// momentOf reads a W3C date, as sitemaps and Atom have it, or one of RFC 822, as RSS has it. A time of an unknown zone may be anywhere's.
func momentOf(text string) moment {
	v := strings.TrimSpace(text)
	if len(v) > 64 {
		return moment{}
	}
	if strings.HasSuffix(v, " UT") {
		v += "C"
	}
	for _, f := range momentForms {
		t, err := time.Parse(f.layout, v)
		if err != nil {
			continue
		}
		m := moment{t, t.Add(f.lasts)}
		zone, offset := t.Zone()
		known := strings.Contains(f.layout, "07") || zone == "GMT" || strings.Contains(f.layout, "MST") && zone == "UTC" || f.lasts >= 24*time.Hour
		if !known && offset == 0 {
			m = moment{t.Add(-anywhere), m.to.Add(anywhere)}
		}
		return m
	}
	return moment{}
}

// says compares an entry with the stored copy. Without one of the channel there is nothing to compare with.
func (s *session) newsOf(e *listed) news {
	if len(s.known.pairs) == 0 {
		return none
	}
	h := urlHash(e.url)
	if !s.known.has(h) {
		if len(s.known.pairs) < channel.MaxDigests/2 { // all that is stored is known of
			return fresh
		}
		return none
	}
	v := s.fetch.validate[h]
	if v == nil || e.changed.from.IsZero() {
		return none
	}
	stored, err := http.ParseTime(v.LastModified)
	switch {
	case err != nil:
		return none
	case e.changed.from.After(stored):
		return fresh
	case !e.changed.to.After(stored):
		return stale
	}
	return none
}

// told takes an entry onto the to-do list; what is fresh goes before it, unless it is there already.
func (s *session) admitEntry(e *listed, depth int) error {
	h := urlHash(e.url)
	if e.says != fresh || s.seen.has(h) || !s.scope.Contains(e.url) {
		return s.follow(e.url, depth, 0)
	}
	if len(s.signalled) < maxSignal {
		s.signalled[h] = true
		s.count("signalled")
	}
	s.hashes = append(s.hashes, h)
	return s.enlist(item{url: e.url, hash: h, depth: depth}, true, true)
}

// feed has the feeds that a page names fetched next.
func (s *session) admitFeeds(urls []string, depth int) error {
	for _, u := range urls {
		if h := urlHash(u); s.feeds < maxFeeds && s.scope.Contains(u) && !s.seen.has(h) {
			s.feeds++
			if err := s.enlist(item{url: u, hash: h, depth: depth}, true, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// proved counts a signal that was right.
func (s *session) countSignal(p *channel.Page, h uint64) {
	if s.signalled[h] && (p.Change == channel.New || p.Change == channel.Changed || p.Change == channel.NearUnchanged) {
		s.count("signal-right")
	}
	delete(s.signalled, h) // it counts once
}
