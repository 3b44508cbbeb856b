package crawl

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"slices"
	"strings"

	"shoal/channel"
	"shoal/channel/sitemap"
)

// Bounds of sitemaps (https://www.sitemaps.org/protocol.html allows 50 MiB and 50,000 URLs a file).
const (
	maxSitemaps    = 10       // files of one crawl, indexes included
	maxSitemap     = 10 << 20 // bytes of a file, decompressed
	maxSitemapURLs = 50_000   // of all files together
)

// listed is one entry of a sitemap or a feed.
type listed struct {
	url     string
	changed moment // lastmod, pubDate or updated
	says    news
}

// readSitemaps reads the sitemaps and feeds that robots.txt names. It sorts their entries: pages that are new or have changed since they were
// stored, then the others by the time of their last change, then pages that have not changed. It asks only the channel's own host: a
// robots.txt must not send peers elsewhere. If there are more files than a crawl reads, the next crawl reads others.
func (s *session) readSitemaps(ctx context.Context) (found []listed, err error) {
	files := newSitemapQueue(s.cfg.Header.Gen, maxSitemaps)
	var named []string
	for _, ref := range s.robots.Sitemaps {
		if u, err := channel.Resolve(s.cfg.Body.Scope.Host+"/robots.txt", ref); err == nil {
			named = append(named, u)
		}
	}
	files.add(s.ownFiles(named))
	room := min(maxSitemapURLs, max(4*s.budget, 1000))
	s.asked = 0
	for len(found) < room {
		u, ok := s.nextSitemap(files)
		if !ok {
			break
		}
		r := s.fetch.get(ctx, item{url: u, hash: urlHash(u), any: true}, s.fetch.fields, maxSitemap)
		if err := s.ended(ctx, &r); err != nil {
			return nil, err
		}
		s.visited(&r, 0, kindOf(r.err))
		if to, err := location(&r); err == nil && r.status >= 300 && r.status < 400 && s.owns(to) {
			files.add([]string{to})
			continue
		}
		if r.err != nil || r.status != 200 {
			s.count("sitemap")
		}
		if r.status != 200 || len(r.body) == 0 { // what came of a file that broke off counts
			continue
		}
		entries, more := readEntries(sitemap.Open(unzipped(r.body), contentTypeOf(r.header)), u, room-len(found))
		for _, e := range entries {
			if s.scope.Contains(e.url) {
				found = append(found, e)
			}
		}
		files.add(s.ownFiles(more))
	}
	for i := range found {
		found[i].says = s.newsOf(&found[i])
	}
	slices.SortStableFunc(found, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.says, b.says), b.changed.from.Compare(a.changed.from))
	})
	return found, nil
}

// owns reports whether a URL is of the channel's host.
func (s *session) owns(u string) bool { return channel.Origin(u) == s.cfg.Body.Scope.Host }

// ownFiles gives those of some sitemaps that are of the channel's host. Many sites have moved to https and name their sitemaps as before: such a file is asked for
// where the site is now.
func (s *session) ownFiles(urls []string) (own []string) {
	for _, u := range urls {
		if rest, ok := strings.CutPrefix(u, "http://"); ok && s.owns("https://"+rest) {
			u = "https://" + rest
		}
		if s.owns(u) {
			own = append(own, u)
		}
	}
	return own
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

// unzipped decompresses a file that is itself gzip, apart from any content encoding.
func unzipped(b []byte) []byte {
	if !bytes.HasPrefix(b, []byte("\x1f\x8b")) {
		return b
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return b
	}
	out, _ := io.ReadAll(io.LimitReader(z, maxSitemap)) // what came before an error counts
	return out
}

// readEntries gives the pages and the sitemaps that a document lists, up to room of them.
func readEntries(d *sitemap.Document, base string, room int) (pages []listed, sitemaps []string) {
	for e := range d.Entries(nil) {
		if len(pages)+len(sitemaps) >= room {
			break
		}
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
			pages = append(pages, listed{url: u, changed: momentOf(e.Changed)})
		}
	}
	return pages, sitemaps
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
	pages, _ := readEntries(d, base, maxFeedEntries)
	for _, e := range pages {
		if !seen[e.url] && len(entries) < channel.MaxPageLinks {
			seen[e.url] = true
			entries = append(entries, e)
		}
	}
	return entries
}

const maxFeedEntries = 10 * channel.MaxPageLinks // entries that are read, repeated ones included
