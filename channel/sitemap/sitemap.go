// Package sitemap reads what sites publish about their own pages: sitemaps and indexes of them (https://www.sitemaps.org/protocol.html),
// RSS, Atom, and plain lists of URLs. It reads them as they are met, which is often not as XML has it: names in any case, with and
// without prefixes, bare "&", open elements. It fetches nothing, follows nothing, and does not judge URLs.
//
// Reading takes time in proportion to the length of the text, whatever the text is.
package sitemap

import (
	"bytes"
	"iter"
	"regexp"
	"slices"
	"strings"
)

// Kind says what a document is.
type Kind int

// The kinds of documents.
const (
	Unknown Kind = iota // none of the others
	List                // a URL on each line
	URLs                // a sitemap
	Index               // a sitemap of sitemaps
	Feed                // RSS or Atom
)

// Entry is one URL that a document lists.
type Entry struct {
	URL     string // as written, without space around it and without character references
	Changed string // when it changed last, as written; "": the document does not say
	Index   bool   // the URL is of a sitemap
	Line    int    // where it stands, from 1

	// Base are the values of xml:base around the URL, the outermost first: what a relative URL is relative to, and they to each other.
	Base []string
}

// Document is a text that has been recognised.
type Document struct {
	Kind Kind
	text []byte // UTF-8
	from int    // where the root is
}

// Open recognises a document by its text; contentType is that of its HTTP response, if there is one, and counts only for the encoding.
func Open(body []byte, contentType string) *Document {
	d := &Document{text: utf8Of(body, contentType)}
	if d.isList() {
		d.Kind = List
		return d
	}
	s := scanner{text: d.text}
	for depth := 0; ; {
		switch s.next() {
		case ended:
			return d
		case closed:
			depth = max(depth-1, 0)
		case opened:
			if s.from > d.from+maxDirt && d.Kind != Unknown {
				return d
			}
			kind, root := kindOf(s.local)
			if root && depth == 0 {
				d.Kind, d.from = kind, s.from
				return d
			}
			if d.Kind == Unknown {
				d.Kind, d.from = URLs, s.from
			}
			if !s.empty && !stays[strings.ToLower(string(s.local))] {
				depth++
			}
		}
	}
}

// isList reports whether a text is a list of URLs. A URL in it may have a "<", which sites do not always encode: then the first line tells, and no
// line begins as a tag does.
func (d *Document) isList() bool {
	if bytes.IndexByte(d.text, '<') < 0 {
		return true
	}
	n := 0
	for e := range d.lines {
		if n++; e.URL[0] == '<' || n == 1 && !isWebURL(e.URL) {
			return false
		}
	}
	return n > 0
}

// maxDirt is how much may stand between the first tag and the root: the warnings of a program, a script that a host has put in.
const maxDirt = 16 << 10

// stays are elements of HTML whose end tag is often not there.
var stays = map[string]bool{"br": true, "hr": true, "img": true, "link": true, "meta": true, "p": true}

// kindOf tells a document by its root. A root that is none of the known ones may still be of a sitemap that is wrapped.
func kindOf(name []byte) (kind Kind, root bool) {
	switch {
	case is(name, "sitemapindex"):
		return Index, true
	case is(name, "rss"), is(name, "feed"), is(name, "rdf"):
		return Feed, true
	case is(name, "html"):
		return Unknown, true
	}
	return URLs, is(name, "urlset")
}

// Entries gives the entries in their order. Torn is set when the text ends within one, which is left out.
func (d *Document) Entries(torn *bool) iter.Seq[Entry] {
	if torn == nil {
		torn = new(bool)
	}
	switch d.Kind {
	case List:
		return d.lines
	case URLs, Index:
		return func(yield func(Entry) bool) { d.locations(yield, torn) }
	case Feed:
		return func(yield func(Entry) bool) { d.links(yield, torn) }
	}
	return func(func(Entry) bool) {}
}

// lines goes through a list. Its lines end in LF, CR or both.
func (d *Document) lines(yield func(Entry) bool) {
	for n, rest := 1, d.text; len(rest) > 0; n++ {
		line := rest
		if i := bytes.IndexAny(rest, "\r\n"); i >= 0 {
			line, rest = rest[:i], bytes.TrimPrefix(rest[i:], []byte("\r"))
			rest = bytes.TrimPrefix(rest, []byte("\n"))
		} else {
			rest = nil
		}
		if u := trim(string(line)); u != "" && u[0] != '#' && !yield(Entry{URL: u, Line: n}) {
			return
		}
	}
}

// locations goes through a sitemap or an index. An entry's lastmod stands before its loc or after it.
func (d *Document) locations(yield func(Entry) bool, torn *bool) {
	s := scanner{text: d.text, at: d.from, entities: declared(d.text[:d.from], len(d.text))}
	var root, group prefix
	var ours [][]byte // prefixes of the vocabulary's elements
	var next Entry    // that waits for its lastmod
	lastmod := ""     // that waits for its loc
	index := d.Kind == Index
	var foreign []byte // an element of another vocabulary that has no prefix; its content is passed over
	flush := func() bool {
		e := next
		next = Entry{}
		return e.URL == "" || yield(e)
	}
	for {
		switch s.next() {
		case ended:
			flush()
			return
		case closed:
			if len(foreign) > 0 && bytes.EqualFold(s.local, foreign) {
				foreign = nil
			}
			if is(s.local, "url") || is(s.local, "sitemap") {
				lastmod, foreign = "", nil
				if !flush() {
					return
				}
			}
			continue
		case opened:
		default:
			continue
		}
		ours = s.bindings(ours, sitemapBinding)
		root.first(&s)
		switch {
		case is(s.local, "url"), is(s.local, "sitemap"):
			group.set(&s)
			lastmod, index, foreign = "", is(s.local, "sitemap"), nil
			if !flush() {
				return
			}
		case len(foreign) > 0:
		case s.empty || !root.has(&s) && !group.has(&s) && !slices.ContainsFunc(ours, s.hasPrefix): // another vocabulary's: <image:loc>
		case s.namesOther():
			foreign = s.local
		case is(s.local, "loc"):
			line := s.line()
			text, whole := s.content()
			if !whole {
				*torn = true
				flush()
				return
			}
			if text == "" {
				continue
			}
			if !flush() {
				return
			}
			next, lastmod = Entry{URL: text, Changed: lastmod, Index: index || d.Kind == Index && namesSitemap(text), Line: line}, ""
		case is(s.local, "lastmod"):
			switch text, _ := s.content(); {
			case next.URL != "" && next.Changed == "":
				next.Changed = text
			case next.URL == "":
				lastmod = text
			}
		}
	}
}

// namesSitemap reports whether a URL has the name of a sitemap's file. Some indexes call their sitemaps <url>; others list pages, too.
func namesSitemap(u string) bool {
	u, _, _ = strings.Cut(u, "#")
	u, _, _ = strings.Cut(u, "?")
	u = strings.TrimSuffix(strings.ToLower(u), ".gz")
	return strings.HasSuffix(u, ".xml") || strings.HasSuffix(u, ".txt")
}

// namesOther reports whether a tag without a prefix says that it and what it holds is of a vocabulary for pictures, films or news.
func (s *scanner) namesOther() bool {
	name, said := s.attribute("xmlns")
	return said && len(s.prefix) == 0 && strings.Contains(name, "schemas/sitemap-")
}

// links goes through a feed. The links of an entry have its time, wherever that stands in it.
func (d *Document) links(yield func(Entry) bool, torn *bool) {
	s := scanner{text: d.text, at: d.from, entities: declared(d.text[:d.from], len(d.text))}
	var root, group prefix
	atoms := [][]byte{[]byte("atom")} // prefixes of Atom's elements
	var waiting []Entry
	changed, rank := "", len(times)
	inside, permanent := false, Entry{} // an entry; its guid or what it is about, which is its link where it has no other (RSS 2.0, RSS 1.0)
	var ofFeed, ofEntry []string        // values of xml:base
	flush := func() bool {
		if len(waiting) == 0 && permanent.URL != "" {
			waiting = append(waiting, permanent)
		}
		permanent = Entry{}
		for _, e := range waiting {
			if e.Changed = changed; !yield(e) {
				return false
			}
		}
		waiting, changed, rank = waiting[:0], "", len(times)
		return true
	}
	for {
		kind := s.next()
		if kind == ended {
			flush()
			return
		}
		atoms = s.bindings(atoms, atomBinding)
		if (kind == opened || kind == closed) && (is(s.local, "item") || is(s.local, "entry")) {
			if kind == opened {
				group.set(&s)
			}
			if !flush() {
				return
			}
			if inside, ofEntry = kind == opened, ofFeed; inside {
				ofEntry, permanent = s.withBase(ofFeed), s.about()
			}
			continue
		}
		if kind != opened {
			continue
		}
		root.first(&s)
		if kind, _ := kindOf(s.local); !inside && kind == Feed || is(s.local, "channel") {
			ofFeed = s.withBase(ofFeed)
			ofEntry = ofFeed
		}
		ours := root.has(&s) || group.has(&s)
		if ours && inside && is(s.local, "guid") {
			if e, ok := s.permalink(); ok {
				permanent = e
			}
			continue
		}
		if is(s.local, "link") && (ours || inside && slices.ContainsFunc(atoms, s.hasPrefix)) && s.leads() {
			line, base := s.line(), s.withBase(ofEntry)
			text, atom := s.attribute("href")
			if !atom && !s.empty {
				var whole bool
				if text, whole = s.content(); !whole {
					*torn = true
					flush()
					return
				}
			}
			if text != "" {
				waiting = append(waiting, Entry{URL: text, Line: line, Base: base})
			}
			continue
		}
		for i, name := range times[:rank] {
			if is(s.local, name) && !s.empty && (ours || name == "date" && is(s.prefix, "dc")) {
				changed, _ = s.content()
				rank = i
				break
			}
		}
	}
}

// bindings adds the prefixes that a tag binds to a vocabulary's namespace.
func (s *scanner) bindings(known [][]byte, to *regexp.Regexp) [][]byte {
	if bytes.Contains(s.attributes, []byte("xmlns:")) {
		for _, m := range to.FindAllSubmatch(s.attributes, maxBindings) {
			if len(known) <= maxBindings && !slices.ContainsFunc(known, func(p []byte) bool { return bytes.EqualFold(p, m[1]) }) {
				known = append(known, m[1])
			}
		}
	}
	return known
}

var (
	atomBinding    = binding(`www\.w3\.org/2005/Atom`)
	sitemapBinding = binding(`www\.(?:sitemaps\.org/schemas/sitemap/0\.9|google\.com/schemas/sitemap/0\.84)`)
)

// binding matches what binds a prefix to a namespace.
func binding(namespace string) *regexp.Regexp {
	return regexp.MustCompile(`\sxmlns:([^\s="']+)\s*=\s*["']\s*https?://` + namespace + `/?\s*["']`)
}

const maxBindings = 4 // prefixes of a vocabulary's in a document

func (s *scanner) hasPrefix(name []byte) bool { return bytes.EqualFold(name, s.prefix) }

// permalink reads a guid, if it is the entry's address.
func (s *scanner) permalink() (e Entry, ok bool) {
	line := s.line()
	if yes, said := s.attribute("ispermalink"); s.empty || said && strings.EqualFold(strings.TrimSpace(yes), "false") {
		return e, false
	}
	text, _ := s.content()
	return Entry{URL: text, Line: line}, isWebURL(text)
}

// about gives what an item of RSS 1.0 says that it is about, if it is the item's address.
func (s *scanner) about() Entry {
	if u, ok := s.attribute("rdf:about"); ok && isWebURL(u) {
		return Entry{URL: u, Line: s.line()}
	}
	return Entry{}
}

// withBase adds the xml:base of a tag to those around it.
func (s *scanner) withBase(around []string) []string {
	if !bytes.Contains(s.attributes, []byte(":base")) || len(around) >= maxBases {
		return around
	}
	if base, _ := s.attribute("xml:base"); base != "" {
		return append(around[:len(around):len(around)], base)
	}
	return around
}

const maxBases = 4 // of a feed, a channel in it, an entry and a link

// leads reports whether a link leads to a page, by what it says of itself: not to a sound or film that an entry brings along, not to the feed or entry
// as a document of Atom, not to where it was heard of, and not to where programs edit it or learn of changes (RFC 4287, section 4.2.7.2).
func (s *scanner) leads() bool {
	rel, _ := s.attribute("rel")
	rel = strings.ToLower(rel)
	switch strings.TrimPrefix(rel, "http://www.iana.org/assignments/relation/") {
	case "enclosure", "hub", "edit", "edit-media", "self", "via":
		return false
	case "replies": // a page of comments, or a feed of them
		kind, _ := s.attribute("type")
		kind = strings.ToLower(kind)
		return !strings.HasPrefix(kind, "application/atom+xml") && !strings.HasPrefix(kind, "application/rss+xml")
	}
	return true
}

func isWebURL(s string) bool {
	scheme, _, ok := strings.Cut(s, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// times are the elements that tell when an entry changed, the most telling first.
var times = [...]string{"updated", "pubdate", "published", "date"}

// prefix is the namespace prefix that the elements of a vocabulary have. Elements without one are of it too: what names a prefix for a
// vocabulary is often forgotten, and the other vocabularies that are met in sitemaps and feeds always have theirs.
type prefix struct {
	name  []byte
	known bool
}

func (p *prefix) set(s *scanner) { p.name, p.known = s.prefix, true }

func (p *prefix) first(s *scanner) {
	if !p.known {
		p.set(s)
	}
}

func (p *prefix) has(s *scanner) bool {
	return len(s.prefix) == 0 || p.known && bytes.EqualFold(p.name, s.prefix)
}

// is compares a name in any case with one in lower case.
func is(name []byte, lower string) bool {
	return len(name) == len(lower) && strings.EqualFold(string(name), lower)
}
