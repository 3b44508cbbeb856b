package crawl

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"html"
	"io"
	"slices"
	"strings"

	"shoal/channel"
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

// readSitemaps gives what the sitemaps list that robots.txt names: first what they say is new or has changed since it was stored, then those
// changed last, and at the end what has not changed since. Only what is in the channel's own host is
// asked for: a robots.txt must not send peers elsewhere.
func (s *session) readSitemaps(ctx context.Context) (found []listed, err error) {
	var queue []string
	for _, ref := range s.robots.Sitemaps {
		if u, err := channel.Resolve(s.cfg.Body.Scope.Host+"/robots.txt", ref); err == nil {
			queue = append(queue, u)
		}
	}
	room := min(maxSitemapURLs, max(4*s.budget, 1000))
	asked := map[string]bool{}
	for len(queue) > 0 && len(asked) < maxSitemaps && len(found) < room {
		u := queue[0]
		queue = queue[1:]
		if asked[u] || channel.Origin(u) != s.cfg.Body.Scope.Host || !s.allowed(u) {
			continue
		}
		asked[u] = true
		r := s.fetch.get(item{url: u, hash: urlHash(u), any: true}, s.fetch.fields, maxSitemap)
		if err := s.ended(ctx, &r); err != nil {
			return nil, err
		}
		s.visited(&r, 0, kindOf(r.err))
		if r.err != nil || r.status != 200 {
			s.count("sitemap")
			continue
		}
		entries, index := parseSitemap(unzipped(r.body), u, room-len(found))
		for _, e := range entries {
			if index {
				queue = append(queue, e.url)
			} else if s.scope.Contains(e.url) {
				found = append(found, e)
			}
		}
	}
	for i := range found {
		found[i].says = s.says(&found[i])
	}
	slices.SortStableFunc(found, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.says, b.says), b.changed.from.Compare(a.changed.from))
	})
	return found, nil
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

// parseSitemap reads a sitemap or an index of sitemaps, or a plain list of URLs; what it does not understand it passes over.
func parseSitemap(b []byte, base string, room int) (entries []listed, index bool) {
	index = bytes.Contains(b[:min(len(b), 4096)], []byte("<sitemapindex"))
	if !bytes.Contains(b, []byte("<")) {
		for line := range bytes.Lines(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))) {
			if u, err := channel.Canonical(string(bytes.TrimSpace(line))); err == nil && len(entries) < room {
				entries = append(entries, listed{url: u})
			}
		}
		return entries, false
	}
	for len(entries) < room {
		loc, rest, ok := element(b, "loc")
		if !ok {
			return entries, index
		}
		e := listed{}
		if mod, _, ok := element(around(b, rest, index), "lastmod"); ok {
			e.changed = momentOf(mod)
		}
		b = rest
		u, err := channel.Resolve(base, text(loc))
		if err != nil {
			continue
		}
		e.url = u
		entries = append(entries, e)
	}
	return entries, index
}

// around is what belongs to the entry of the first <loc> in b, after which rest comes: lastmod may stand before it or after it.
func around(b, rest []byte, index bool) []byte {
	opens, closes := []byte("<url"), []byte("</url")
	if index {
		opens, closes = []byte("<sitemap"), []byte("</sitemap")
	}
	from := bytes.LastIndex(b[:len(b)-len(rest)], opens)
	if from < 0 {
		from = len(b) - len(rest)
	}
	end := len(b)
	for _, of := range [...][]byte{[]byte("<loc"), closes} { // the nearer first: what is searched stays short
		if i := bytes.Index(rest[:end-(len(b)-len(rest))], of); i >= 0 {
			end = len(b) - len(rest) + i
		}
	}
	return b[from:end]
}

// isFeed tells RSS and Atom.
func isFeed(contentType string, b []byte) bool {
	if !strings.Contains(contentType, "xml") {
		return false
	}
	head := b[:min(len(b), 1024)]
	return bytes.Contains(head, []byte("<rss")) || bytes.Contains(head, []byte("<feed")) || bytes.Contains(head, []byte("<rdf:RDF"))
}

// feedEntries are the pages that a feed names, each with the moment of its entry.
func feedEntries(b []byte, base string) (entries []listed) {
	seen := map[string]bool{}
	var next entryStarts
	for all, at := b, 0; at < len(all); {
		end := next.after(all, at+1) // of this entry
		part := all[at:end]
		at = end
		var changed moment
		for _, name := range []string{"updated", "pubDate", "published", "dc:date"} {
			if when, _, ok := element(part, name); ok {
				changed = momentOf(when)
				break
			}
		}
		for ref := range feedLinks(part) {
			if u, err := channel.Resolve(base, ref); err == nil && !seen[u] && len(entries) < channel.MaxPageLinks {
				seen[u] = true
				entries = append(entries, listed{url: u, changed: changed})
			}
		}
	}
	return entries
}

// entryStarts remembers where the next entry of each form is, so that a feed of one form is not searched to its end for the other at each.
type entryStarts struct {
	item, entry int // 0: not looked for yet
}

// after is where the first entry at or behind from begins, or the end.
func (n *entryStarts) after(b []byte, from int) int {
	find := func(at *int, what string) {
		if *at >= from {
			return
		}
		*at = len(b)
		if i := bytes.Index(b[from:], []byte(what)); i >= 0 {
			*at = from + i
		}
	}
	find(&n.item, "<item")
	find(&n.entry, "<entry")
	return min(n.item, n.entry)
}

// feedLinks gives the references of <link> elements, of RSS and of Atom.
func feedLinks(b []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		closes := 0 // where the next </link is, at or behind what is looked at
		for at := 0; ; {
			i := bytes.Index(b[at:], []byte("<link"))
			if i < 0 {
				return
			}
			at += i + len("<link")
			end := bytes.IndexByte(b[at:], '>')
			if end < 0 {
				return
			}
			tag := b[at : at+end]
			if j := bytes.Index(tag, []byte("href=")); j >= 0 && j+len("href=") < len(tag) { // Atom
				v := tag[j+len("href="):]
				if n := bytes.IndexByte(v[1:], v[0]); n >= 0 && (v[0] == '"' || v[0] == '\'') && !yield(text(v[1:1+n])) {
					return
				}
				continue
			}
			start := at + end + 1
			if closes < start {
				closes = len(b)
				if n := bytes.Index(b[start:], []byte("</link")); n >= 0 {
					closes = start + n
				}
			}
			if closes < len(b) && closes-start < 3*channel.MaxURL && !yield(text(b[start:closes])) { // RSS
				return
			}
		}
	}
}

// element finds the content of the first element of a name, and what comes after it.
func element(b []byte, name string) (content, rest []byte, ok bool) {
	for {
		i := bytes.Index(b, []byte("<"+name))
		if i < 0 {
			return nil, nil, false
		}
		b = b[i+1+len(name):]
		if len(b) > 0 && b[0] != '>' && b[0] != ' ' && b[0] != '\n' && b[0] != '\t' {
			continue // a longer name
		}
		start := bytes.IndexByte(b, '>')
		if start < 0 {
			return nil, nil, false
		}
		end := bytes.Index(b[start:], []byte("</"+name))
		if end < 0 {
			return nil, nil, false
		}
		return b[start+1 : start+end], b[start+end:], true
	}
}

// text is the content of an element without CDATA, entities and space.
func text(b []byte) string {
	b = bytes.TrimSpace(b)
	if c, ok := bytes.CutPrefix(b, []byte("<![CDATA[")); ok {
		return string(bytes.TrimSpace(bytes.TrimSuffix(c, []byte("]]>"))))
	}
	if bytes.IndexByte(b, '&') >= 0 {
		return html.UnescapeString(string(b))
	}
	return string(b)
}
