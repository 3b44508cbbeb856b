package crawl

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"shoal/channel"
	"shoal/channel/sitemap"
)

// Bounds of sitemaps (https://www.sitemaps.org/protocol.html allows 50 MiB and 50,000 URLs a file).
const (
	maxSitemaps    = 10       // files of one crawl, indexes included
	maxSitemap     = 10 << 20 // bytes of a file, decompressed, that are looked at; up to maxUnzipped are read
	maxSitemapURLs = 50_000   // of the channel, of all files together; and entries that are read of one file
	maxEntries     = 200_000  // entries that are read of all files together
)

// listed is one entry of a sitemap or a feed.
type listed struct {
	url     string
	changed moment // lastmod, pubDate or updated
	says    news
	begins  bool // it is of the beginning of a document, or of one that is read as a whole
}

// readSitemaps reads the sitemaps and feeds that robots.txt names. It sorts their entries: pages that are new or have changed since they were
// stored, then the others by the time of their last change, then pages that have not changed. It asks only the channel's own host: a
// robots.txt must not send peers elsewhere. If there are more files than a crawl reads, or more pages of the channel in a file than it has
// room for, the next crawl reads others. The beginning of a file, where many sites list what is new, is read whenever the file is, and comes before
// what is of the same time.
func (s *session) readSitemaps(ctx context.Context) (found []listed, err error) {
	files := newSitemapQueue(s.cfg.Header.Gen, maxSitemaps)
	var named []string
	for _, ref := range s.robots.Sitemaps {
		if u, err := channel.Resolve(s.cfg.Body.Scope.Host+"/robots.txt", ref); err == nil {
			named = append(named, u)
		}
	}
	files.add(s.ownFiles(named))
	read := entryReader{room: min(maxSitemapURLs, max(4*s.budget, 1000)), most: maxEntries, gen: s.cfg.Header.Gen, wanted: s.ownPage}
	s.asked = 0
	before := s.fetch.read.Load()
	for read.room > 0 && read.most > 0 {
		u, ok := s.nextSitemap(files)
		if !ok {
			break
		}
		left := maxSitemaps*maxSitemap - int(s.fetch.read.Load()-before) // what long files may cost
		r := s.fetch.get(ctx, item{url: u, hash: urlHash(u), any: true, long: true}, s.fetch.fields, max(maxSitemap, min(maxUnzipped, left)))
		if err := s.ended(ctx, &r); err != nil {
			return nil, err
		}
		s.visited(&r, 0, kindOf(r.err))
		if to, err := location(&r); err == nil && r.status >= 300 && r.status < 400 {
			if own := s.ownFiles([]string{to}); len(own) > 0 {
				files.add(own)
				continue
			}
		}
		if r.err != nil && !errors.Is(r.err, errCheck) || r.status != 200 {
			s.count("sitemap")
		}
		if r.status != 200 || len(r.body) == 0 { // what came of a file that broke off counts
			continue
		}
		read.waiting = files.waiting()
		pages, more := read.entries(sitemap.Open(partOf(&r, read.gen), contentTypeOf(r.header)), u)
		found = append(found, pages...)
		files.add(s.ownFiles(more))
	}
	found = append(found, read.spare...)
	for i := range found {
		found[i].says = s.newsOf(&found[i])
	}
	slices.SortStableFunc(found, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.says, b.says), b.changed.from.Compare(a.changed.from), compareBegins(a, b))
	})
	return found, nil
}

// compareBegins puts entries of beginnings before the others.
func compareBegins(a, b listed) int {
	switch {
	case a.begins == b.begins:
		return 0
	case a.begins:
		return -1
	}
	return 1
}

// owns reports whether a URL is of the channel's host.
func (s *session) owns(u string) bool { return channel.Origin(u) == s.cfg.Body.Scope.Host }

// ownFiles gives those of some sitemaps that are of the channel's host.
func (s *session) ownFiles(urls []string) (own []string) {
	for _, u := range urls {
		if u = s.moved(u); s.owns(u) {
			own = append(own, u)
		}
	}
	return own
}

// ownPage gives the URL of a page that a sitemap lists, and whether it is of the channel.
func (s *session) ownPage(u string) (string, bool) {
	u = s.moved(u)
	return u, s.scope.Contains(u)
}

// moved gives where a URL is now. Many sites have moved to https and name their sitemaps and pages as before: what is of the channel's host is asked
// for there, as browsers do.
func (s *session) moved(u string) string {
	if rest, ok := strings.CutPrefix(u, "http://"); ok && s.owns("https://"+rest) {
		return "https://" + rest
	}
	return u
}

// nextSitemap gives the next file that robots.txt allows. Of the many that may be named only those are looked at that would be read.
func (s *session) nextSitemap(files *sitemapQueue) (string, bool) {
	for {
		u, ok := files.next()
		if !ok || s.overRuleBudget() {
			return "", false
		}
		if s.allowed(u) {
			return u, true
		}
		files.left++
	}
}

// entryReader reads what sitemaps and feeds list. Documents that still wait have their share of what it may take and read: one that comes before them
// has no more. Of a document with more entries than its share it reads the beginning and, for the larger part, what follows another place in each crawl.
type entryReader struct {
	room    int                             // pages that it still takes
	most    int                             // entries that it still reads
	gen     channel.Gen                     // of the crawl
	wanted  func(url string) (string, bool) // whether a page is taken, and by which URL
	waiting int                             // documents that are to be read after this one
	spare   []listed                        // pages beyond the shares of their documents, no more than there is room for
}

// beginning is the part of a document's share that its first entries have: one in so many.
const beginning = 4

// share gives the current document's part of what is left.
func (r *entryReader) share(left int) int { return (left + r.waiting) / (r.waiting + 1) }

// entries gives the pages and the sitemaps that a document lists. Pages beyond its share are spare.
func (r *entryReader) entries(d *sitemap.Document, base string) (pages []listed, sitemaps []string) {
	all := 0
	for range d.Entries(nil) {
		all++
	}
	share, most := r.share(r.room), min(r.share(r.most), maxSitemapURLs)
	head, from := 0, 0
	whole := all <= min(share, most)
	if !whole {
		head = min(share, most) / beginning
		from = head + place(r.gen, golden, all-head)
	}
	room := max(share, r.room-len(r.spare))
	var early []listed // those before from
	n := -1
	for e := range d.Entries(nil) {
		if n++; n >= head && head+(n-from+all-head)%(all-head) >= most {
			continue
		}
		to := &pages
		if n < from {
			to = &early
		}
		if !e.Index && len(*to) >= room {
			continue
		}
		r.most--
		u, err := "", error(nil)
		if d.Kind == sitemap.List { // any text looks like a list: only whole URLs count
			u, err = channel.Canonical(e.URL)
		} else {
			u, err = channel.Resolve(baseOf(base, e.Base), e.URL)
		}
		switch {
		case err != nil:
		case e.Index:
			sitemaps = append(sitemaps, u)
		default:
			if u, ok := r.wanted(u); ok {
				*to = append(*to, listed{url: u, changed: momentOf(e.Changed), begins: whole || n < from && len(early) < head})
			}
		}
	}
	head = min(head, len(early))
	return r.take(slices.Concat(early[:head], pages, early[head:]), share), sitemaps
}

// take gives the pages of a document's share, and keeps of the others what there is room for if those that wait have fewer than their shares.
func (r *entryReader) take(pages []listed, share int) []listed {
	share = min(share, len(pages))
	r.room -= share
	r.spare = append(r.spare, pages[share:]...)
	r.spare = r.spare[:min(len(r.spare), r.room)]
	return pages[:share]
}

// baseOf gives what an entry's URL is relative to.
func baseOf(document string, said []string) string {
	for _, ref := range said {
		if u, err := channel.Resolve(document, ref); err == nil {
			document = u
		}
	}
	return document
}

// feedEntries gives the pages that a feed lists, each once. It gives none if the body is not a feed.
func feedEntries(contentType string, body []byte, base string) (entries []listed) {
	if !isXML(contentType, body) {
		return nil
	}
	d := sitemap.Open(body, contentType)
	if d.Kind != sitemap.Feed {
		return nil
	}
	seen := map[string]bool{}
	once := func(u string) (string, bool) {
		again := seen[u]
		seen[u] = true
		return u, !again
	}
	read := entryReader{room: channel.MaxPageLinks, most: maxSitemapURLs, gen: 1, wanted: once} // a feed has its news at the beginning
	entries, _ = read.entries(d, base)
	return entries
}
