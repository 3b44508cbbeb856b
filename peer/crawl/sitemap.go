package crawl

import (
	"bytes"
	"compress/gzip"
	"context"
	"html"
	"io"
	"slices"
	"strings"
	"time"

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
	changed time.Time // lastmod, pubDate or updated; zero: not said
}

// readSitemaps takes the sitemaps that robots.txt names as seeds, those changed last first. Only what is in the channel's own host is
// asked for: a robots.txt must not send peers elsewhere.
func (s *session) readSitemaps(ctx context.Context) error {
	var queue []string
	for _, ref := range s.robots.Sitemaps {
		if u, err := channel.Resolve(s.cfg.Body.Scope.Host+"/robots.txt", ref); err == nil {
			queue = append(queue, u)
		}
	}
	room := min(maxSitemapURLs, max(4*s.budget, 1000))
	asked := map[string]bool{}
	var found []listed
	for len(queue) > 0 && len(asked) < maxSitemaps && len(found) < room {
		u := queue[0]
		queue = queue[1:]
		if asked[u] || channel.Origin(u) != s.cfg.Body.Scope.Host || !s.allowed(u) {
			continue
		}
		asked[u] = true
		r := s.fetch.get(item{url: u, hash: urlHash(u), any: true}, s.fetch.fields, maxSitemap)
		if err := s.ended(ctx, &r); err != nil {
			return err
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
			} else {
				found = append(found, e)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b listed) int { return b.changed.Compare(a.changed) })
	for _, e := range found {
		if err := s.admit(e.url, 1, 0, true); err != nil {
			return err
		}
	}
	return nil
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
		for line := range bytes.Lines(b) {
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
		// lastmod stands in the same <url>, before or after <loc>; it is looked for up to the next <loc>.
		next := rest
		if i := bytes.Index(rest, []byte("<loc")); i >= 0 {
			next = rest[:i]
		}
		if mod, _, ok := element(next, "lastmod"); ok {
			e.changed = moment(mod)
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

// isFeed tells RSS and Atom.
func isFeed(contentType string, b []byte) bool {
	if !strings.Contains(contentType, "xml") {
		return false
	}
	head := b[:min(len(b), 1024)]
	return bytes.Contains(head, []byte("<rss")) || bytes.Contains(head, []byte("<feed")) || bytes.Contains(head, []byte("<rdf:RDF"))
}

// feedLinks are the pages that a feed names.
func feedLinks(b []byte, base string) (links []string) {
	seen := map[string]bool{}
	add := func(ref string) {
		if u, err := channel.Resolve(base, ref); err == nil && !seen[u] && len(links) < channel.MaxPageLinks {
			seen[u] = true
			links = append(links, u)
		}
	}
	for {
		i := bytes.Index(b, []byte("<link"))
		if i < 0 {
			return links
		}
		b = b[i+len("<link"):]
		end := bytes.IndexByte(b, '>')
		if end < 0 {
			return links
		}
		tag := b[:end]
		if j := bytes.Index(tag, []byte("href=")); j >= 0 && j+len("href=") < len(tag) { // Atom
			v := tag[j+len("href="):]
			if n := bytes.IndexByte(v[1:], v[0]); n >= 0 && (v[0] == '"' || v[0] == '\'') {
				add(text(v[1 : 1+n]))
			}
			continue
		}
		if n := bytes.Index(b[end+1:], []byte("</link")); n >= 0 && n < 3*channel.MaxURL { // RSS
			add(text(b[end+1 : end+1+n]))
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

// moment reads a W3C date, as sitemaps have it.
func moment(b []byte) time.Time {
	v := text(b)
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly, "2006-01", "2006"} {
		if t, err := time.Parse(layout, v); err == nil {
			return t
		}
	}
	return time.Time{}
}
