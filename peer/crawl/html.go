package crawl

import (
	"bytes"
	"html"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tdewolff/parse/v2"
	lexer "github.com/tdewolff/parse/v2/html"
	"golang.org/x/net/html/charset"

	"shoal/channel"
)

// page is what was read from one HTML document. It is used again for the next one. Owned by the session.
type page struct {
	links     []string // canonical, each once
	shingle   uint64
	same      uint64 // equal for pages of the same text; zero: none
	text      []byte // visible text, if it was asked for
	canonical string
	refresh   string // where <meta http-equiv=refresh> leads
	wish      wish
	skipped   int // links with rel=nofollow

	scratch []byte // the document as the lexer wants it: it writes into what it reads
	found   map[string]struct{}
	bytes   int // of links
	tag     tag
}

// tag collects the attributes of the tag that is being read.
type tag struct {
	name                                    string
	href, rel, httpEquiv, metaName, content []byte
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
	p.links, p.text, p.canonical, p.refresh = p.links[:0], p.text[:0], "", ""
	p.wish, p.skipped, p.shingle, p.bytes = wish{}, 0, 0, 0
	if p.found == nil {
		p.found = map[string]struct{}{}
	}
	clear(p.found)
	p.scratch = append(append(p.scratch[:0], utf8Of(body, contentType)...), 0) // the lexer wants a NUL within the capacity
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
			p.tag = tag{name: string(l.Text())}
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

func (p *page) attribute(key, val []byte) {
	val = bytes.TrimSpace(bytes.Trim(val, `"'`))
	switch string(key) {
	case "href":
		p.tag.href = val
	case "src":
		if p.tag.name == "frame" || p.tag.name == "iframe" {
			p.tag.href = val
		}
	case "rel":
		p.tag.rel = val
	case "http-equiv":
		p.tag.httpEquiv = val
	case "name":
		p.tag.metaName = val
	case "content":
		p.tag.content = val
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
			if u, err := channel.Resolve(base, reference(t.href)); err == nil {
				p.canonical = u
				p.add(u)
			}
		} else if hasWord(t.rel, "next") || hasWord(t.rel, "prev") || hasWord(t.rel, "alternate") && !hasWord(t.rel, "stylesheet") {
			p.link(base, t.href)
		}
	case "meta":
		if n := strings.ToLower(string(t.metaName)); n == "robots" || n == product {
			p.wish = p.wish.and(directives(string(t.content), time.Now()))
		}
		if strings.EqualFold(string(t.httpEquiv), "refresh") {
			if _, to, ok := strings.Cut(string(t.content), "="); ok {
				if u, err := channel.Resolve(base, reference([]byte(strings.Trim(to, ` "'`)))); err == nil {
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
	if u, err := channel.Resolve(base, reference(href)); err == nil {
		p.add(u)
	}
}

func (p *page) add(u string) {
	u = withoutSession(u)
	if _, ok := p.found[u]; !ok && len(p.links) < channel.MaxPageLinks && p.bytes+len(u) <= maxLinkBytes {
		p.bytes += len(u)
		p.found[u] = struct{}{}
		p.links = append(p.links, u)
	}
}

func reference(b []byte) string {
	if bytes.IndexByte(b, '&') >= 0 {
		return html.UnescapeString(string(b))
	}
	return string(b)
}

// hasWord finds a word in a list by spaces, in any case.
func hasWord(list []byte, word string) bool {
	for len(list) > 0 {
		var w []byte
		w, list, _ = bytes.Cut(list, []byte(" "))
		if len(w) == len(word) && strings.EqualFold(string(w), word) {
			return true
		}
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

// utf8Of gives a document in UTF-8. What says nothing of its encoding and is valid UTF-8 is taken for it.
func utf8Of(body []byte, contentType string) []byte {
	head := body[:min(len(body), 1024)]
	declared := strings.Contains(strings.ToLower(contentType), "charset=")
	if bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) || declared && strings.Contains(strings.ToLower(contentType), "utf-8") {
		return body
	}
	if !declared && !bytes.HasPrefix(body, []byte("\xff\xfe")) && !bytes.HasPrefix(body, []byte("\xfe\xff")) {
		i := bytes.Index(bytes.ToLower(head), []byte("charset="))
		if i < 0 && utf8.Valid(body) {
			return body
		}
		if i >= 0 && bytes.HasPrefix(bytes.TrimLeft(bytes.ToLower(head[i+len("charset="):]), `"' `), []byte("utf-8")) {
			return body
		}
	}
	enc, name, _ := charset.DetermineEncoding(head, contentType)
	if name == "utf-8" {
		return body
	}
	out, err := enc.NewDecoder().Bytes(body)
	if err != nil {
		return body
	}
	return out
}
