package crawl

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"slices"

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

// readSitemaps gives what the sitemaps and feeds list that robots.txt names: first what they say is new or has changed since it was stored, then
// those changed last, and at the end what has not changed since. Only what is on the channel's own host is asked for: a robots.txt must not
// send peers elsewhere. Of more files than one crawl reads, the next crawl reads others.
func (s *session) readSitemaps(ctx context.Context) (found []listed, err error) {
	files := newSitemapQueue(s.cfg.Header.Gen, maxSitemaps)
	var named []string
	for _, ref := range s.robots.Sitemaps {
		if u, err := channel.Resolve(s.cfg.Body.Scope.Host+"/robots.txt", ref); err == nil && s.mayRead(u) {
			named = append(named, u)
		}
	}
	files.add(named)
	room := min(maxSitemapURLs, max(4*s.budget, 1000))
	for len(found) < room {
		u, ok := files.next()
		if !ok {
			break
		}
		r := s.fetch.get(ctx, item{url: u, hash: urlHash(u), any: true}, s.fetch.fields, maxSitemap)
		if err := s.ended(ctx, &r); err != nil {
			return nil, err
		}
		s.visited(&r, 0, kindOf(r.err))
		if to, err := location(&r); err == nil && r.status >= 300 && r.status < 400 && s.mayRead(to) {
			files.add([]string{to})
			continue
		}
		if r.err != nil || r.status != 200 {
			s.count("sitemap")
			continue
		}
		entries, more := readEntries(sitemap.Open(unzipped(r.body), contentTypeOf(r.header)), u, room-len(found))
		for _, e := range entries {
			if s.scope.Contains(e.url) {
				found = append(found, e)
			}
		}
		files.add(slices.DeleteFunc(more, func(u string) bool { return !s.mayRead(u) }))
	}
	for i := range found {
		found[i].says = s.newsOf(&found[i])
	}
	slices.SortStableFunc(found, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.says, b.says), b.changed.from.Compare(a.changed.from))
	})
	return found, nil
}

// mayRead tells whether a sitemap may be asked for.
func (s *session) mayRead(u string) bool {
	return channel.Origin(u) == s.cfg.Body.Scope.Host && s.allowed(u)
}

// unzipped takes gzip off a file that is served as one, beside any content encoding.
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

// readEntries gives up to room pages that a document lists, and the sitemaps that it names.
func readEntries(d *sitemap.Document, base string, room int) (pages []listed, sitemaps []string) {
	for e := range d.Entries(nil) {
		if len(pages)+len(sitemaps) >= room {
			break
		}
		u, err := "", error(nil)
		if d.Kind == sitemap.List { // another text's lines are no references
			u, err = channel.Canonical(e.URL)
		} else {
			u, err = channel.Resolve(base, e.URL)
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

// feedEntries are the pages that a feed names, each once, with the moment of its entry; none if the body is no feed.
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

const maxFeedEntries = 10 * channel.MaxPageLinks // that are looked at, the same ones again included
