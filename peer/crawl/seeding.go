package crawl

import (
	"context"
	"errors"

	"shoal/channel"
	"shoal/channel/order"
)

// resume notes which pages the archive and an earlier run have, and gives the URLs that these runs found and did not fetch.
func (s *session) resume() (left []channel.Frontier, err error) {
	for _, h := range s.cfg.Resume.Done {
		s.seen.add(h)
	}
	if left, err = s.unspool(); err != nil {
		return nil, err
	}
	s.resumed = s.seen.n > 0
	s.listen()
	left = append(s.cfg.Resume.Frontier, left...)
	s.cfg.Resume = channel.Resume{} // it may hold a million URLs
	return left, nil
}

// seed fills the to-do list with the seeds, the URLs that an interrupted crawl left, those that other channels' pages link to, and those that
// sitemaps list.
func (s *session) seed(ctx context.Context, left []channel.Frontier) (err error) {
	s.fetch.conditional = s.listsAllStored(left)
	if err := s.admitAll(s.cfg.Body.Seeds); err != nil {
		return err
	}
	for _, u := range s.cfg.Body.Seeds {
		if c, err := channel.Canonical(u); err == nil && !s.scope.Contains(c) {
			s.outside++
		}
	}
	var found []listed
	if !s.resumed {
		if found, err = s.readSitemaps(ctx); err != nil {
			return err
		}
	}
	last := map[uint64]bool{}
	for i := range found {
		switch found[i].says {
		case fresh:
			if err := s.admitEntry(&found[i], 1); err != nil {
				return err
			}
		case stale:
			last[urlHash(found[i].url)] = true
		}
	}
	for _, f := range left {
		if len(last) > 0 && last[urlHash(f.URL)] {
			continue // it comes last, with the rest of found
		}
		if err := s.admit(f.URL, f.Depth, 0, false); err != nil {
			return err
		}
	}
	if err := s.admitAll(s.cfg.Body.Inter); err != nil {
		return err
	}
	for i := range found {
		if err := s.admitEntry(&found[i], 1); err != nil {
			return err
		}
	}
	s.hashes = s.hashes[:0]
	if !s.resumed && s.unfetched() == 0 && s.report.Errors["skipped-robots"] > 0 {
		s.report.Robots = robotsDisallowed
	}
	return nil
}

func (s *session) admitAll(urls []string) error {
	for _, u := range urls {
		c, err := channel.Canonical(u)
		if err != nil {
			s.count("bad-seed")
			continue
		}
		if err := s.admit(c, 0, 0, true); err != nil {
			return err
		}
	}
	return nil
}

// listsAllStored reports whether every page that the archive has is fetched already or in a list. Then the crawl may ask with validators: an
// answer of 304 hides the links of a page, but an unchanged page has the links it had, and those are listed.
func (s *session) listsAllStored(list []channel.Frontier) bool {
	if len(list) == 0 || len(s.cfg.Body.Validators) == 0 {
		return false
	}
	listed := newSeen(len(list))
	for _, f := range list {
		listed.add(urlHash(f.URL))
	}
	for _, u := range s.cfg.Body.Seeds {
		if c, err := channel.Canonical(u); err == nil {
			listed.add(urlHash(c))
		}
	}
	for _, p := range s.known.pairs {
		if !listed.has(p.URL) && !s.seen.has(p.URL) {
			return false
		}
	}
	return true
}

// unspool takes up the pages that an earlier run of this task fetched and did not put, with their links to other sites, and gives the URLs that it found.
func (s *session) unspool() (left []channel.Frontier, err error) {
	err = s.spool.load(s.seen.has, s.scope.Contains, func(b *channel.ChunkBody) {
		for i := range b.Pages {
			p := &b.Pages[i]
			if s.seen.add(urlHash(p.URL)) {
				s.budget--
				s.tally(p)
			}
			for _, u := range p.Links {
				s.leadsOut(u)
			}
		}
		left = append(left, b.Frontier...)
	})
	return left, err
}

// admit puts a canonical URL on the to-do list if it is new, in scope, allowed and no trap. With record it goes into the checkpoint, too.
func (s *session) admit(u string, depth, hops int, record bool) error {
	if !s.scope.Contains(u) {
		return nil
	}
	return s.enlist(item{url: u, hash: urlHash(u), depth: depth, hops: hops}, record, false)
}

// enlist is admit for a URL in scope. With soon the URL goes before the to-do list.
func (s *session) enlist(it item, record, soon bool) error {
	u, depth := it.url, it.depth
	if s.seen.has(it.hash) {
		return nil
	}
	if depth > s.cfg.depth() {
		s.report.Truncated = true
		return nil
	}
	if depth > s.cfg.dynamicDepth() && order.Dynamic(u) {
		return nil // it does not count as seen: a shorter way may lead to it
	}
	s.seen.add(it.hash)
	if !s.allowed(u) {
		s.count("skipped-robots")
		return nil
	}
	if depth > 0 && s.traps.trap(u) != "" {
		s.count("skipped-trap")
		return nil
	}
	if _, first := s.frontier.(*fifo); soon && first && len(s.soon) < maxSoon {
		s.soon = append(s.soon, it)
	} else if err := s.frontier.add(it); errors.Is(err, errSpillFull) {
		s.count("skipped-full")
		s.report.Truncated = true
		return nil
	} else if err != nil {
		return err
	}
	if record {
		return s.spool.add(it)
	}
	return nil
}

// maxAsked bounds the time that robots.txt takes for the links of one page, or for the names of all sitemaps. It is a few seconds for the slowest rules: 500 KiB hold 50,000
// rules, a page holds a hundred thousand links.
const maxAsked = 20_000_000

// overRuleBudget counts one more link of the current page, or one more sitemap, and tells whether they have used up the time for robots.txt.
func (s *session) overRuleBudget() bool {
	if s.asked += s.ruleCost; s.asked <= maxAsked {
		return false
	}
	s.count("skipped-rules")
	s.report.Truncated = true
	return true
}
