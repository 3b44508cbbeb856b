package compare

import (
	"bytes"
	"cmp"
	"hash/fnv"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"shoal/channel"
	"shoal/channel/markup"
)

// Fetch is one fetch of a page.
type Fetch struct {
	URL    string // that was asked for, canonical
	Final  string // after redirects, canonical; empty: the same
	Status int
	Type   string // Content-Type as received
	Body   []byte
	Size   int  // of the body as it came, if more than Body
	Short  bool // the body's end did not come
}

// Limits of what is read of a body.
const (
	maxBody  = 1 << 20
	maxWords = maxBody / 2 // no body that is read has more
)

// Of takes the features out of a fetch. Of what is neither HTML nor plain text the bytes tell whether two fetches are the same, and the words, if it has some, how much
// they have in common: a feed says when it was made, and differs by that at each fetch.
func Of(f Fetch) *Features {
	r := &Features{Status: f.Status}
	if f.Final != "" && f.Final != f.URL {
		r.Final = channel.URLHash(f.Final)
	}
	body := f.Body[:min(len(f.Body), maxBody)]
	r.Rest, r.Short = max(f.Size, len(f.Body))-len(body), f.Short
	if len(body) < len(f.Body) {
		body = markup.WholeCharacters(body)
	}
	f.Type = markup.ByRoot(f.Type, body)
	media := markup.MediaType(f.Type)
	bytewise := len(body) == 0 || media != "" && media != "text/plain" && !markup.IsHTML(media)
	if bytewise {
		r.blocks(body)
	}
	if bytewise && !hasWords(media) {
		r.Exact = channel.ContentDigest(body)
		return r
	}
	text, _, _ := markup.UTF8(body, f.Type)
	p := reader{base: base(f), f: r, last: "^"}
	switch {
	case bytewise:
		p.text(string(text))
		p.named(string(text))
	case media == "text/plain":
		p.text(string(text))
	default:
		p.page(html.NewTokenizer(bytes.NewReader(text)))
	}
	p.finish()
	if bytewise {
		r.Exact = channel.ContentDigest(body) // signs between words count as well
	}
	return r
}

// blocks takes in the parts of a body of which the bytes count.
func (f *Features) blocks(body []byte) {
	for ; len(body) >= blockSize; body = body[blockSize:] {
		f.Blocks = append(f.Blocks, channel.ContentDigest(body[:blockSize]))
	}
}

// What is compared of a file whose end did not come.
const (
	blockSize  = 1 << 10
	leastBegun = 64 << 10
)

// hasWords tells whether something of a media type is text, though no page to be read: feeds, data, programs.
func hasWords(media string) bool {
	if strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+xml") || strings.HasSuffix(media, "+json") {
		return true
	}
	switch media {
	case "application/json", "application/xml", "application/javascript", "application/x-javascript", "application/ecmascript", "application/yaml", "application/x-ndjson":
		return true
	}
	return false
}

func base(f Fetch) *url.URL {
	u, err := url.Parse(cmp.Or(f.Final, f.URL))
	if err != nil {
		return &url.URL{}
	}
	return u
}

// reader collects what is compared.
type reader struct {
	base   *url.URL
	f      *Features
	skip   int // depth of elements whose text is no main text
	title  bool
	script bool // within a program
	titles []string
	words  []uint32
	last   string // the word before
}

// hidden are elements whose content is not for reading, and aside those that pages share.
var (
	hidden = map[atom.Atom]bool{atom.Script: true, atom.Style: true, atom.Template: true, atom.Noscript: true, atom.Svg: true, atom.Iframe: true}
	aside  = map[atom.Atom]bool{atom.Nav: true, atom.Header: true, atom.Footer: true, atom.Aside: true, atom.Form: true}
)

// page reads a document. Elements that are never closed end with the document: then their text does not count, in both fetches alike.
func (p *reader) page(z *html.Tokenizer) {
	for {
		switch z.Next() {
		case html.ErrorToken:
			return
		case html.TextToken:
			switch text := string(z.Text()); {
			case p.title:
				p.titles = append(p.titles, strings.FieldsFunc(text, between)...)
			case p.script:
				p.named(text)
			case p.skip == 0:
				p.text(text)
			}
		case html.StartTagToken:
			t := z.Token()
			p.start(&t)
		case html.SelfClosingTagToken:
			t := z.Token()
			p.sources(&t)
			if t.DataAtom == atom.A {
				p.link(&t)
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			switch a := atom.Lookup(name); {
			case a == atom.Title:
				p.title = false
			case a == atom.Script && p.skip > 0:
				p.script = false
				p.skip--
			case (hidden[a] || aside[a]) && p.skip > 0:
				p.skip--
			}
		}
	}
}

func (p *reader) start(t *html.Token) {
	p.sources(t)
	p.script = t.DataAtom == atom.Script
	switch {
	case t.DataAtom == atom.Title && p.skip == 0:
		p.title = true
	case hidden[t.DataAtom], aside[t.DataAtom]:
		p.skip++
	case t.DataAtom == atom.A:
		p.link(t)
	}
}

// link notes where a link leads: inside, its path and the names of its query; outside, the host.
func (p *reader) link(t *html.Token) {
	for _, a := range t.Attr {
		if a.Key != "href" {
			continue
		}
		u, err := p.base.Parse(strings.TrimSpace(a.Val))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return
		}
		host := bare(u.Hostname())
		if host != bare(p.base.Hostname()) {
			p.f.Outside = append(p.f.Outside, hash(host))
			return
		}
		var names []string
		for name := range u.Query() {
			names = append(names, name)
		}
		slices.Sort(names)
		p.f.Inside = append(p.f.Inside, hash(u.Path+"?"+strings.Join(names, "&")))
		return
	}
}

// between tells whether a character stands between words.
func between(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// text adds words of the main text.
func (p *reader) text(s string) {
	for _, w := range strings.FieldsFunc(s, between) {
		if len(p.words) >= maxWords {
			return
		}
		w = strings.ToLower(w)
		p.words = append(p.words, hash(w))
		if w[0] >= '0' && w[0] <= '9' {
			p.f.Figures = append(p.f.Figures, hash(p.last+" "+w))
		} else {
			p.last = w
		}
	}
}

// finish makes runs of three words of the text, and sets of all.
func (p *reader) finish() {
	f := p.f
	f.Words = len(p.words)
	f.Title = uint64(hash(strings.ToLower(strings.Join(p.titles, " "))))
	exact := uint64(14695981039346656037)
	for i, w := range p.words {
		exact = (exact ^ uint64(w)) * 1099511628211
		if i >= 2 || len(p.words) < 3 {
			f.Text = append(f.Text, uint32(scatter(uint64(w)^uint64(p.words[max(i-1, 0)])<<20^uint64(p.words[max(i-2, 0)])<<40)))
		}
	}
	f.Exact = exact
	f.Text = set(f.Text, MaxText)
	f.Inside, f.Outside, f.Figures, f.Sources = set(f.Inside, MaxLinks), set(f.Outside, MaxLinks), set(f.Figures, MaxLinks), set(f.Sources, MaxLinks)
}

func set(x []uint32, most int) []uint32 {
	slices.Sort(x)
	x = slices.Compact(x)
	return x[:min(len(x), most)]
}

func hash(s string) uint32 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return uint32(scatter(h.Sum64()))
}

// scatter mixes bits, so that the least hashes are a fair sample.
func scatter(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}
