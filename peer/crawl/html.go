package crawl

import (
	"bytes"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/tdewolff/parse/v2"
	lexer "github.com/tdewolff/parse/v2/html"

	"shoal/channel"
)

// page is what was read from one HTML document. It is used again for the next one. Owned by the session.
type page struct {
	links     []string // canonical, each once
	shingle   uint64
	same      uint64 // equal for pages of the same text; zero: none
	text      []byte // visible text, if it was asked for
	canonical string
	feeds     []string // of links: what it names as its RSS or Atom
	refresh   string   // where <meta http-equiv=refresh> leads
	wish      wish
	skipped   int // links with rel=nofollow

	scratch  []byte // the document as the lexer wants it: it writes into what it reads
	found    map[uint64]struct{}
	bytes    int // of links
	tag      tag
	query    *query         // how queries of links are encoded; nil: in UTF-8
	refs     map[string]ref // what references of earlier pages led to
	refBytes int
	origin   string // that those of refs are of which begin with "/"
	rooted   bool   // the page's base is of origin
}

// tag collects the attributes of the tag that is being read.
type tag struct {
	name                                    string
	href, rel, httpEquiv, metaName, content []byte
	kind                                    []byte // type
}

// shortText is how many words a text has for which the fingerprint says nothing: all of them must be the same.
const shortText = 100

// isHTML tells whether links can be read from a content type.
func isHTML(contentType string, body []byte) bool {
	t, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(t)) {
	case "text/html", "application/xhtml+xml":
		return true
	case "":
		return strings.HasPrefix(http.DetectContentType(body), "text/html")
	}
	return false
}

// read goes once through a document: links, fingerprint of the text, what its author asks of robots, and the text itself if wanted.
func (p *page) read(url string, body []byte, contentType, product string, withText bool) {
	p.links, p.text, p.feeds, p.canonical, p.refresh = p.links[:0], p.text[:0], p.feeds[:0], "", ""
	p.wish, p.skipped, p.shingle, p.bytes = wish{}, 0, 0, 0
	if p.found == nil {
		p.found = map[uint64]struct{}{}
	}
	clear(p.found)
	p.settle(url)
	body, p.query = utf8Of(body, contentType)
	p.scratch = append(append(p.scratch[:0], body...), 0) // the lexer wants a NUL within the capacity
	l := lexer.NewLexer(parse.NewInputBytes(p.scratch[:len(p.scratch)-1]))
	var shingles channel.Shingler
	base, hidden := url, ""
	based := false
	for {
		kind, raw := l.Next()
		switch kind {
		case lexer.ErrorToken:
			p.shingle = shingles.Sum()
			words, exact := shingles.Text()
			if p.same = p.shingle; words < shortText {
				p.same = exact
			}
			if cap(p.scratch) > 512<<10 {
				p.scratch = nil
			}
			return
		case lexer.TextToken:
			if hidden == "" {
				shingles.Add(raw)
				if withText {
					p.text = appendText(p.text, raw)
				}
			}
		case lexer.StartTagToken:
			p.tag = tag{name: tagNames[string(l.Text())]}
			switch p.tag.name {
			case "script", "style", "template":
				hidden = p.tag.name
			}
		case lexer.AttributeToken:
			p.attribute(l.AttrKey(), l.AttrVal())
		case lexer.StartTagCloseToken, lexer.StartTagVoidToken:
			if p.tag.name == "base" && !based && p.tag.href != nil {
				if b, err := channel.Resolve(url, reference(p.tag.href)); err == nil {
					base, based = b, true
					p.settle(base)
				}
			} else {
				p.close(base, product)
			}
			if kind == lexer.StartTagVoidToken && hidden == p.tag.name {
				hidden = ""
			}
		case lexer.EndTagToken:
			if hidden != "" && string(l.Text()) == hidden {
				hidden = ""
			}
		}
	}
}

// tagNames are the elements that are looked at.
var tagNames = map[string]string{"a": "a", "area": "area", "base": "base", "frame": "frame", "iframe": "iframe", "link": "link", "meta": "meta",
	"script": "script", "style": "style", "template": "template"}

func (p *page) attribute(key, val []byte) {
	if p.tag.name == "" {
		return // a tag that is not looked at
	}
	for len(val) > 0 && (val[0] == '"' || val[0] == '\'') {
		val = val[1:]
	}
	for n := len(val); n > 0 && (val[n-1] == '"' || val[n-1] == '\''); n-- {
		val = val[:n-1]
	}
	val = bytes.TrimSpace(val)
	if val == nil {
		val = []byte{}
	}
	to := &p.tag.href
	switch string(key) {
	case "href":
	case "src":
		if p.tag.name != "frame" && p.tag.name != "iframe" {
			return
		}
	case "rel":
		to = &p.tag.rel
	case "type":
		to = &p.tag.kind
	case "http-equiv":
		to = &p.tag.httpEquiv
	case "name":
		to = &p.tag.metaName
	case "content":
		to = &p.tag.content
	default:
		return
	}
	if *to == nil { // of two of one name the first counts
		*to = val
	}
}

// close works on a whole start tag.
func (p *page) close(base, product string) {
	switch t := &p.tag; t.name {
	case "a", "area", "frame", "iframe":
		if t.href == nil {
			return
		}
		if hasWord(t.rel, "nofollow") {
			p.skipped++
			return
		}
		p.link(base, t.href)
	case "link":
		if t.href == nil {
			return
		}
		if hasWord(t.rel, "canonical") {
			if u, err := channel.Resolve(base, p.query.encode(reference(t.href))); err == nil {
				p.canonical = u
				p.add(u)
			}
		} else if hasWord(t.rel, "next") || hasWord(t.rel, "prev") || hasWord(t.rel, "alternate") && !hasWord(t.rel, "stylesheet") {
			if r := p.resolve(base, t.href); r.url != "" && (indexFold(t.kind, "rss+xml") >= 0 || indexFold(t.kind, "atom+xml") >= 0) && len(p.feeds) < maxFeeds {
				p.feeds = append(p.feeds, r.url)
			}
			p.link(base, t.href)
		}
	case "meta":
		if n := strings.ToLower(string(t.metaName)); n == "robots" || n == product {
			p.wish = p.wish.and(directives(string(t.content), time.Now()))
		}
		if strings.EqualFold(string(t.httpEquiv), "refresh") {
			if to := refreshTarget(reference(t.content)); to != "" {
				if u, err := channel.Resolve(base, p.query.encode(to)); err == nil {
					p.refresh = u
					p.add(u)
				}
			}
		}
	}
}

func (p *page) link(base string, href []byte) {
	if len(p.links) >= channel.MaxPageLinks || p.bytes >= maxLinkBytes || len(href) > 3*channel.MaxURL {
		return
	}
	if r := p.resolve(base, href); r.url != "" {
		p.take(r)
	}
}

// ref is what a reference leads to.
type ref struct {
	url  string // canonical, without session; "": nowhere
	hash uint64
}

// maxRefs bounds the bytes of the references of earlier pages that are remembered, and maxRef those of one.
const (
	maxRefs = 1 << 20
	maxRef  = 200
	refCost = 80 // of an entry, beside its texts
)

// resolve gives what a reference leads to. Most references of a page were on the pages before, so those whose meaning is the same
// all over the host are remembered.
func (p *page) resolve(base string, href []byte) ref {
	rooted := len(href) > 1 && href[0] == '/' && href[1] != '/' && href[1] != '\\' && p.rooted
	same := (rooted || bytes.HasPrefix(href, []byte("http://")) || bytes.HasPrefix(href, []byte("https://"))) && len(href) <= maxRef && p.query == nil
	if same {
		if r, ok := p.refs[string(href)]; ok {
			return r
		}
	}
	var r ref
	if u, err := channel.Resolve(base, p.query.encode(reference(href))); err == nil {
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

// settle notes the origin that rooted references are of.
func (p *page) settle(base string) {
	origin := channel.Origin(base)
	if p.refs == nil {
		p.origin = origin
	}
	p.rooted = origin == p.origin
}

func (p *page) add(u string) {
	u = withoutSession(u)
	p.take(ref{u, urlHash(u)})
}

func (p *page) take(r ref) {
	if _, ok := p.found[r.hash]; !ok && len(p.links) < channel.MaxPageLinks && p.bytes+len(r.url) <= maxLinkBytes {
		p.bytes += len(r.url)
		p.found[r.hash] = struct{}{}
		p.links = append(p.links, r.url)
	}
}

// hasWord finds a word in a list by white space, in any case.
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

// appendText appends a run of text with its spaces closed up.
func appendText(to, raw []byte) []byte {
	if bytes.IndexByte(raw, '&') >= 0 {
		raw = []byte(html.UnescapeString(string(raw)))
	}
	for _, w := range bytes.Fields(raw) {
		if len(to) > 0 {
			to = append(to, ' ')
		}
		to = append(to, w...)
	}
	return to
}
