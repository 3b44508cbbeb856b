package crawl

import (
	"bytes"
	"strings"

	"shoal/channel"
	"shoal/channel/markup"
)

// page holds what was read from one HTML document. It is reused for the next one. Owned by the session.
type page struct {
	links   []string // canonical, each once
	shingle uint64
	same    uint64     // equal for pages of the same text; zero: no text
	text    []byte     // visible text, if it was asked for
	title   []byte     // as written, at most maxTitle bytes
	feeds   []string   // those of links that are the page's RSS or Atom
	robots  directives // what its author asks
	skipped int        // links with rel=nofollow

	found    map[uint64]struct{}
	bytes    int            // of links
	query    *query         // how queries of links are encoded; nil: in UTF-8
	refs     map[string]ref // what references of earlier pages led to
	refBytes int
	origin   string // to which the references in refs belong that begin with "/"
	rooted   bool   // the page's base is on origin
	onWeb    bool   // it is of the Web
}

// shortText is the number of words below which the fingerprint says too little: short texts are the same only if all words are.
const shortText = 100

// read goes through a document: links, fingerprint of the text, what its author asks of robots, and the text itself if wanted.
func (p *page) read(url string, body []byte, contentType, product string, withText bool) {
	r := reader{page: p, url: url, base: url, product: product, withText: withText, xml: markup.IsXHTML(markup.MediaType(contentType))}
	body, enc, name := markup.UTF8(body, contentType)
	if r.xml {
		body = markup.FromRoot(body)
	}
	if p.query = nil; enc != nil {
		p.query = &query{enc, name}
	}
	for again := true; again; { // at most twice
		p.begin(r.base)
		r.tokenizer, r.foreign, r.frames, r.shingles = markup.NewTokenizer(body), foreign{stack: r.foreign.stack[:0]}, framesMayCome, channel.Shingler{}
		r.bodyFrom = -1
		again = r.read()
	}
	p.shingle = r.shingles.Sum()
	words, exact := r.shingles.Text()
	if p.same = p.shingle; words < shortText {
		p.same = exact
	}
}

// begin forgets the page before.
func (p *page) begin(base string) {
	p.links, p.text, p.feeds, p.title = p.links[:0], p.text[:0], p.feeds[:0], p.title[:0]
	p.robots, p.skipped, p.shingle, p.bytes = directives{}, 0, 0, 0
	if p.found == nil {
		p.found = map[uint64]struct{}{}
	}
	clear(p.found)
	p.settle(base)
}

// maxTitle is the most bytes of a title that are kept: a title is for the volunteer's record.
const maxTitle = 300

// name returns the title as a reader sees it, on one line.
func (p *page) name() string {
	return strings.Join(strings.Fields(markup.Text(strings.ToValidUTF8(string(p.title), ""))), " ")
}

// reader reads one document into a page.
type reader struct {
	*page
	url, product string
	withText     bool
	xml          bool // the document is XHTML

	tokenizer markup.Tokenizer
	foreign   foreign
	frames    frames
	shingles  channel.Shingler
	tag       tag
	base      string // what references are relative to
	based     bool   // a <base> has named it
	resolved  bool   // something was resolved against it
	bodyFrom  int    // of links, what the body led to so far; negative: nothing
}

// tag collects the attributes of the present start tag. One that the tag does not have is nil.
type tag struct {
	is                                             htmlElement
	href, xlink, rel, httpEquiv, metaName, content []byte
	kind                                           []byte // type
	encoding                                       []byte // of <annotation-xml>
	legacy                                         bool   // <font> with color, face or size
}

// frames reports whether a document consists of frames. A <frameset> counts only before any content, and after it nothing counts but frames. A
// positive value is the number of open framesets.
type frames int

const (
	framesMayCome frames = 0
	framesCannot  frames = -1
	framesEnded   frames = -2
)

// only reports whether nothing but frames counts.
func (f frames) only() bool { return f > framesMayCome || f == framesEnded }

// read goes through the document to its end, or until a <base> comes so late that it is to be read again.
func (r *reader) read() (again bool) {
	for {
		kind, token := r.tokenizer.Next(r.xml || r.foreign.cdata())
		switch kind {
		case markup.EndOfFile:
			return false
		case markup.TextToken:
			if r.frames == framesMayCome && !isBlank(token) {
				r.frames = framesCannot
			}
			r.show(token)
		case markup.StartTag:
			if r.start(token) {
				return true
			}
		case markup.EndTag:
			r.end(token, elementOf(token))
		}
	}
}

// start reads a start tag to its end, and the element's content too if that holds no markup.
func (r *reader) start(name []byte) (again bool) {
	is := elementOf(name)
	r.tag = tag{is: is}
	var look func(name, value []byte)
	if is.has(looked) || !r.foreign.inHTML() {
		look = r.attribute
	}
	selfClosing, whole := r.tokenizer.Attributes(look)
	switch {
	case !whole:
		return false
	case r.frames.only():
		r.startFrame(is)
		return false
	}
	if kind, ok := r.foreign.enters(name, is, r.tag.legacy); ok {
		if is == elA {
			if r.tag.href == nil && kind == ofSVG {
				r.tag.href = r.tag.xlink
			}
			r.follow()
		}
		if !selfClosing {
			r.foreign.push(name, kind, r.tag.encoding)
		}
		return false
	}
	if r.frames == framesMayCome && (is.has(noFrames) || is == elInput && !bytes.EqualFold(r.tag.kind, []byte("hidden"))) {
		r.frames = framesCannot
	}
	switch is {
	case elSVG, elMath:
		kind := ofSVG
		if is == elMath {
			kind = ofMath
		}
		if !selfClosing {
			r.foreign.push(name, kind, nil)
		}
		return false
	case elFrameset:
		if r.frames == framesMayCome && r.foreign.templates == 0 {
			r.frames = 1
			r.foreign.cut(0)
			r.dropBody()
		}
		return false
	case elBase:
		return r.rebase()
	}
	closed := selfClosing && r.xml
	if !closed {
		r.foreign.started(name, is)
	}
	r.content(is, closed)
	return false
}

// dropBody forgets the links of a body: the <frameset> that comes replaces it.
func (r *reader) dropBody() {
	if r.bodyFrom < 0 {
		return
	}
	for _, u := range r.links[r.bodyFrom:] {
		delete(r.found, urlHash(u))
		r.bytes -= len(u)
	}
	r.links = r.links[:r.bodyFrom]
}

// content handles an element of HTML, and passes over content that holds no markup. Closed says that the element has no content.
func (r *reader) content(is htmlElement, closed bool) {
	switch is {
	case elA, elArea, elIframe:
		r.follow()
	case elLink:
		r.link()
	case elMeta:
		r.meta()
	}
	if closed {
		return
	}
	switch is {
	case elScript:
		r.tokenizer.Script()
	case elPlaintext:
		r.show(r.tokenizer.Rest())
	}
	if is.has(holdsText) {
		if text := r.tokenizer.RawText(elements[is].name); is.has(shown) {
			r.show(text)
			if is == elTitle && len(r.title) == 0 && r.foreign.inHTML() && r.foreign.templates == 0 {
				r.title = append(r.title, text[:min(len(text), maxTitle)]...)
			}
		}
	}
}

// startFrame handles a start tag in a document of frames.
func (r *reader) startFrame(is htmlElement) {
	switch {
	case is == elNoframes:
		r.tokenizer.RawText(elements[is].name)
	case r.frames == framesEnded:
	case is == elFrameset:
		r.frames++
	case is == elFrame:
		r.follow()
	}
}

func (r *reader) end(name []byte, is htmlElement) {
	if !r.frames.only() {
		r.foreign.ended(name, is)
		if is == elBr && r.frames == framesMayCome { // </br> counts as <br>
			r.frames = framesCannot
		}
		return
	}
	if is == elFrameset && r.frames != framesEnded {
		if r.frames--; r.frames == framesMayCome {
			r.frames = framesEnded
		}
	}
}

// show adds text to the fingerprint. Text in pictures, templates and documents of frames is not for readers.
func (r *reader) show(text []byte) {
	if !r.foreign.inHTML() || r.foreign.templates > 0 || r.frames.only() {
		return
	}
	r.shingles.Add(text)
	if r.withText {
		r.text = appendText(r.text, text)
	}
}

// attribute notes one attribute of the start tag. Of two with the same name the first counts.
func (r *reader) attribute(name, value []byte) {
	if value == nil {
		value = []byte{}
	}
	t := &r.tag
	var to *[]byte
	switch {
	case markup.EqualFold(name, "href"), markup.EqualFold(name, "src"):
		if frame := t.is == elFrame || t.is == elIframe; frame != (len(name) == len("src")) {
			return
		}
		to = &t.href
	case markup.EqualFold(name, "rel"):
		to = &t.rel
	case markup.EqualFold(name, "type"):
		to = &t.kind
	case markup.EqualFold(name, "http-equiv"):
		to = &t.httpEquiv
	case markup.EqualFold(name, "name"):
		to = &t.metaName
	case markup.EqualFold(name, "content"):
		to = &t.content
	case markup.EqualFold(name, "xlink:href"):
		to = &t.xlink
	case markup.EqualFold(name, "encoding"):
		to = &t.encoding
	case markup.EqualFold(name, "color"), markup.EqualFold(name, "face"), markup.EqualFold(name, "size"):
		t.legacy = true
		return
	default:
		return
	}
	if *to != nil {
		return
	}
	if *to = value; to != &t.href && to != &t.xlink { // links are decoded when they are followed
		*to = markup.ValueBytes(value)
	}
}

// rebase handles a <base>. The first one with an href counts for the whole document. It returns true if links came before it, so that the
// document must be read again.
func (r *reader) rebase() (again bool) {
	if r.based || r.tag.href == nil || r.foreign.templates > 0 {
		return false
	}
	r.based = true
	href := markup.Value(r.tag.href)
	base, err := channel.Resolve(r.url, r.query.encode(href))
	if err != nil && leadsNowhere(href) && channel.IsURL(r.url, href) {
		base, err = href, nil
	}
	if err != nil || base == r.base {
		return false
	}
	r.base = base
	r.settle(base)
	return r.resolved
}

// leadsNowhere reports whether a <base> that is not of the Web counts all the same if it is a URL, so that relative links lead nowhere: it may have any
// scheme but "javascript" and "data" (HTML, section 4.2.3).
func leadsNowhere(href string) bool {
	scheme, _, ok := strings.Cut(strings.TrimLeft(href, " \t\n\f\r"), ":")
	if !ok || scheme == "" || !markup.IsLetter(scheme[0]) {
		return false
	}
	for i := range len(scheme) {
		if c := scheme[i]; !markup.IsLetter(c) && (c < '0' || c > '9') && c != '+' && c != '-' && c != '.' {
			return false
		}
	}
	switch strings.ToLower(scheme) {
	case "http", "https", "javascript", "data":
		return false
	}
	return true
}

// isBlank reports whether text consists of white space and NULs, which the standard drops.
func isBlank(text []byte) bool {
	for i, c := range text {
		if c == '&' {
			return strings.Trim(markup.Text(string(text[i:])), " \t\n\f\r") == ""
		}
		if !markup.IsSpace(c) && c != 0 {
			return false
		}
	}
	return true
}

// appendText appends text with each run of white space as one space.
func appendText(to, raw []byte) []byte {
	if bytes.IndexByte(raw, '&') >= 0 {
		raw = []byte(markup.Text(string(raw)))
	}
	for _, w := range bytes.Fields(raw) {
		if len(to) > 0 {
			to = append(to, ' ')
		}
		to = append(to, w...)
	}
	return to
}
