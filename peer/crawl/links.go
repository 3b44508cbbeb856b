package crawl

import (
	"bytes"
	"strings"
	"time"

	"shoal/channel"
	"shoal/channel/markup"
)

// follow adds the link of the present element, unless it is nofollow.
func (r *reader) follow() {
	if r.bodyFrom < 0 {
		r.bodyFrom = len(r.links)
	}
	if r.tag.href == nil {
		return
	}
	if hasWord(r.tag.rel, "nofollow") {
		r.skipped++
		return
	}
	r.addReference(r.tag.href)
}

// link handles a <link>: some kinds lead to pages.
func (r *reader) link() {
	t := &r.tag
	if t.href == nil || r.foreign.templates > 0 {
		return
	}
	switch {
	case hasWord(t.rel, "canonical"):
		if to := r.lead(markup.Value(t.href)); to.url != "" {
			r.add(to)
		}
	case hasWord(t.rel, "next"), hasWord(t.rel, "prev"), hasWord(t.rel, "previous"), hasWord(t.rel, "alternate") && !hasWord(t.rel, "stylesheet"):
		if isFeedType(t.kind) && len(r.feeds) < maxFeeds {
			if to := r.resolve(r.base, t.href); to.url != "" {
				r.feeds = append(r.feeds, to.url)
			}
		}
		r.addReference(t.href)
	}
}

func isFeedType(kind []byte) bool {
	return markup.IndexFold(kind, "rss+xml") >= 0 || markup.IndexFold(kind, "atom+xml") >= 0
}

// meta handles a <meta>: directives for robots, and refresh.
func (r *reader) meta() {
	t := &r.tag
	if r.foreign.templates > 0 {
		return
	}
	if n := strings.ToLower(string(t.metaName)); n == "robots" || n == r.product {
		r.robots = r.robots.and(parseDirectives(string(t.content), time.Now()))
	}
	if bytes.EqualFold(t.httpEquiv, []byte("refresh")) {
		if to := refreshTarget(string(t.content)); to != "" {
			if to := r.lead(to); to.url != "" {
				r.add(to)
			}
		}
	}
}

// refreshTarget gives the URL in the content of <meta http-equiv=refresh> (HTML, section 4.2.5.3): "5; url=/there", "0;/there", "0 '/there'".
func refreshTarget(s string) string {
	const space = " \t\n\f\r"
	s = strings.TrimLeft(s, space)
	rest := strings.TrimLeft(s, "0123456789.")
	if rest == s {
		return ""
	}
	after := strings.TrimLeft(rest, space)
	if after != "" && (after[0] == ';' || after[0] == ',') {
		after = strings.TrimLeft(after[1:], space)
	} else if after == rest {
		return "" // more than a number
	}
	s = after
	if len(s) > 3 && strings.EqualFold(s[:3], "url") {
		if u, ok := strings.CutPrefix(strings.TrimLeft(s[3:], space), "="); ok {
			s = strings.TrimLeft(u, space)
		}
	}
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		quote := s[:1]
		s, _, _ = strings.Cut(s[1:], quote)
	}
	return strings.TrimRight(s, space)
}

// lead resolves a decoded reference.
func (r *reader) lead(text string) ref {
	r.resolved = true
	u, err := channel.Resolve(r.base, r.query.encode(text))
	if err != nil {
		return ref{}
	}
	u = withoutSession(u)
	return ref{u, urlHash(u)}
}

// addReference adds a link that is written in an attribute.
func (r *reader) addReference(href []byte) {
	if len(r.links) >= channel.MaxPageLinks || r.bytes >= maxLinkBytes || len(href) > 3*channel.MaxURL {
		return
	}
	r.resolved = true
	if to := r.resolve(r.base, href); to.url != "" {
		r.add(to)
	}
}

// ref is a resolved reference.
type ref struct {
	url  string // canonical, without session ids; "": it cannot be resolved
	hash uint64
}

// Bounds of the references of earlier pages that a page remembers: maxRefs is in bytes for all of them, maxRef for one.
const (
	maxRefs = 1 << 20
	maxRef  = 200
	refCost = 80 // bytes of an entry beside its texts
)

// resolve resolves a reference as it is written. Most references of a page were on earlier pages too, so the page remembers those that mean
// the same all over the host, unless what they are relative to is not of the Web.
func (p *page) resolve(base string, href []byte) ref {
	rooted := len(href) > 1 && href[0] == '/' && href[1] != '/' && href[1] != '\\' && p.rooted
	same := (rooted || bytes.HasPrefix(href, []byte("http://")) || bytes.HasPrefix(href, []byte("https://"))) && len(href) <= maxRef && p.onWeb && p.query == nil
	if same {
		if r, ok := p.refs[string(href)]; ok {
			return r
		}
	}
	var r ref
	if u, err := channel.Resolve(base, p.query.encode(markup.Value(href))); err == nil {
		u = withoutSession(u)
		r = ref{u, urlHash(u)}
	}
	if same {
		if p.refs == nil || p.refBytes >= maxRefs {
			p.refs, p.refBytes = make(map[string]ref), 0
		}
		p.refs[string(href)] = r
		p.refBytes += len(href) + len(r.url) + refCost
	}
	return r
}

// settle notes the origin to which references like "/a" belong.
func (p *page) settle(base string) {
	p.onWeb = strings.HasPrefix(base, "https://") || strings.HasPrefix(base, "http://")
	origin := channel.Origin(base)
	if p.refs == nil && p.onWeb {
		p.origin = origin
	}
	p.rooted = origin == p.origin && p.onWeb
}

// add adds a link, unless the page has it already or has too many.
func (p *page) add(r ref) {
	if _, ok := p.found[r.hash]; !ok && len(p.links) < channel.MaxPageLinks && p.bytes+len(r.url) <= maxLinkBytes {
		p.bytes += len(r.url)
		p.found[r.hash] = struct{}{}
		p.links = append(p.links, r.url)
	}
}

// hasWord finds a word in a list that is separated by white space, in any case.
func hasWord(list []byte, word string) bool {
	for len(list) > 0 {
		n := bytes.IndexAny(list, " \t\n\f\r")
		if n < 0 {
			n = len(list)
		}
		if n == len(word) && strings.EqualFold(string(list[:n]), word) {
			return true
		}
		list = list[min(n+1, len(list)):]
	}
	return false
}
