package crawl

import (
	"net/http"
	"time"

	"shoal/channel"
)

// The crawl uses what sitemaps and feeds say in three ways. It fetches pages first, and without validators, that they call new or changed.
// It fetches pages last that have not changed since they were stored, so that a budget cuts those off. And its report counts how many pages
// were called new or changed ("signalled") and how many of those were ("signal-right").

// news compares what a sitemap or a feed says about a page with the stored copy. Smaller values are fetched earlier.
type news int

const (
	fresh news = iota - 1 // the page is new, or has changed since it was stored
	none                  // nothing is known
	stale                 // the page has not changed since
)

// Bounds of signals.
const (
	maxFeeds  = 3      // feeds that a crawl fetches as soon as a page names them
	maxSoon   = 1000   // pages that go before the to-do list
	maxSignal = 10_000 // pages whose signals are counted
)

// moment is a time as a site writes it. A date lasts from its beginning to its end. The zero value means no time.
type moment struct{ from, to time.Time }

// anywhere is the largest distance between local times and UTC.
const anywhere = 14 * time.Hour

// momentOf reads a time. One in an unknown zone may be in any zone.
func momentOf(text string) moment {
	d, ok := dateOf(text)
	if !ok {
		return moment{}
	}
	m := moment{d.at, d.at.Add(d.lasts)}
	if !d.zoned {
		m = moment{m.from.Add(-anywhere), m.to.Add(anywhere)}
	}
	return m
}

// newsOf compares an entry with the stored copy of the channel.
func (s *session) newsOf(e *listed) news {
	if len(s.known.pairs) == 0 {
		return none
	}
	h := urlHash(e.url)
	if !s.known.has(h) {
		if len(s.known.pairs) < channel.MaxDigests/2 { // the task lists all stored pages
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

// admitEntry puts an entry on the to-do list. A fresh one goes before the list, unless it is on it already.
func (s *session) admitEntry(e *listed, depth int) error {
	h := urlHash(e.url)
	if e.says != fresh || s.seen.has(h) || !s.scope.Contains(e.url) || s.tells(e.url) {
		return s.follow(e.url, depth, 0)
	}
	if len(s.signalled) < maxSignal {
		s.signalled[h] = true
		s.count("signalled")
	}
	s.hashes = append(s.hashes, h)
	return s.enlist(item{url: e.url, hash: h, depth: depth}, true, true)
}

// admitFeeds puts the feeds that a page names before the to-do list.
func (s *session) admitFeeds(urls []string, depth int) error {
	for _, u := range urls {
		u = s.moved(u)
		if h := urlHash(u); s.feeds < maxFeeds && s.scope.Contains(u) && !s.seen.has(h) && !s.tells(u) {
			s.feeds++
			if err := s.enlist(item{url: u, hash: h, depth: depth}, true, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// countSignal counts a signal that was right.
func (s *session) countSignal(p *channel.Page, h uint64) {
	if s.signalled[h] && (p.Change == channel.New || p.Change == channel.Changed || p.Change == channel.NearUnchanged) {
		s.count("signal-right")
	}
	delete(s.signalled, h) // a signal counts once
}
