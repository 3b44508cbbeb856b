// Package text finds the main text of a page: what a reader came for, without navigation, advertising and scripts. go-trafilatura does
// it, at about 3 MB a second, so the archive has it done behind the feed, not before a chunk is acknowledged.
//
// It is pure. It is not for links (crawls find those) nor for comparing pages (channel.Shingler).
package text

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/markusmobius/go-trafilatura"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"shoal/channel/markup"
)

// Limits of what is read and given.
const (
	MaxIn   = 1 << 20 // bytes of a document that are looked at
	MaxOut  = 1 << 20 // bytes of text
	MaxTree = 50_000  // nodes of a document
	maxMeta = 500     // bytes of a title or a language
)

// ErrNoText says that a document has no text that this package could read.
var ErrNoText = errors.New("text: none")

// Text is what was found.
type Text struct {
	Title string
	Lang  string // as the document says; may be empty
	Body  string
}

// Readable tells whether text can perhaps be read from what has a Content-Type. It may be written badly, as the crawl reads it too; and of XML only the root
// tells whether it is XHTML.
func Readable(contentType string) bool {
	t := markup.MediaType(contentType)
	return t == "" || t == "text/plain" || isXML(t) || markup.IsHTML(t)
}

func isXML(mediaType string) bool { return mediaType == "text/xml" || mediaType == "application/xml" }

// Extract finds the text of a document of the given Content-Type.
func Extract(pageURL, contentType string, body []byte) (t Text, err error) {
	defer func() { // a document must not end the archive
		if p := recover(); p != nil {
			t, err = Text{}, fmt.Errorf("%w: extraction failed: %v", ErrNoText, p)
		}
	}()
	if len(body) > MaxIn {
		body = markup.WholeCharacters(body[:MaxIn])
	}
	contentType = markup.ByRoot(contentType, body)
	media := markup.MediaType(contentType)
	if !Readable(contentType) || isXML(media) || media == "" && !strings.HasPrefix(http.DetectContentType(body), "text/") {
		return Text{}, fmt.Errorf("%w: %.60q", ErrNoText, contentType)
	}
	body, _, _ = markup.UTF8(body, contentType)
	if markup.IsXHTML(media) {
		body = markup.FromRoot(body)
	}
	if media == "text/plain" {
		if t.Body = clip(strings.TrimSpace(string(body)), MaxOut); t.Body == "" {
			return Text{}, fmt.Errorf("%w: empty document", ErrNoText)
		}
		return t, nil
	}
	if t = ofHTML(pageURL, body); t.Body == "" && t.Title == "" {
		return Text{}, fmt.Errorf("%w: empty document", ErrNoText)
	}
	return t, nil
}

// ofHTML finds the text of an HTML document in UTF-8. What is nested or has nodes beyond measure is read without its structure.
func ofHTML(pageURL string, body []byte) (t Text) {
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil || size(doc) > MaxTree {
		t = flat(body)
	} else {
		removeUnseen(doc)
		t = Text{Title: find(doc, "title"), Lang: language(doc), Body: words(doc)}
		u, err := url.Parse(pageURL)
		if err != nil {
			u = nil
		}
		setApart(doc)
		if got, err := trafilatura.ExtractDocument(doc, options(u)); err == nil {
			if t.Title == "" {
				t.Title = got.Metadata.Title
			}
			if found := strings.TrimSpace(got.ContentText); better(found, t.Body) {
				t.Body = found
			}
		}
	}
	t.Title, t.Lang, t.Body = clip(t.Title, maxMeta), clip(t.Lang, maxMeta), clip(t.Body, MaxOut)
	return t
}

// fewWords is how many characters a page's main text has at least. Of less, go-trafilatura gives the whole document, with its head.
const fewWords = 100

// better tells whether what go-trafilatura has found is the main text, and not only all words of the page with other spaces between them.
func better(found, all string) bool {
	if utf8.RuneCountInString(found) <= fewWords {
		return false
	}
	return all == "" || !strings.HasSuffix(letters(found), letters(all))
}

// letters is a text without its spaces.
func letters(s string) string { return strings.Join(strings.Fields(s), "") }

// options leave off what go-trafilatura would pass on to unmaintained modules (decision 0030): no fallback, no
// dates.
func options(page *url.URL) trafilatura.Options {
	return trafilatura.Options{OriginalURL: page, ExcludeComments: true, HtmlDateMode: trafilatura.Disabled, MaxTreeSize: MaxTree}
}

func size(n *html.Node) (count int) {
	for range n.Descendants() {
		if count++; count > MaxTree {
			break
		}
	}
	return count
}

// unseen are elements that browsers which run scripts show nothing of. The parser takes what is in most of them for text, with its markup.
var unseen = map[string]bool{"noscript": true, "iframe": true, "noembed": true, "noframes": true, "template": true}

// removeUnseen takes them out of a document. One that consists of frames says in noframes what it is about.
func removeUnseen(doc *html.Node) {
	var gone []*html.Node
	var frames, body *html.Node
	for n := range doc.Descendants() {
		switch {
		case n.Type != html.ElementNode || n.Namespace != "":
		case unseen[n.Data]:
			gone = append(gone, n)
		case n.Data == "frameset" && frames == nil:
			frames = n
		case n.Data == "body":
			body = n
		}
	}
	for _, n := range gone {
		if n.Data == "noframes" && frames != nil && body == nil && n.FirstChild != nil {
			in := &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body}
			if nodes, err := html.ParseFragment(strings.NewReader(n.FirstChild.Data), in); err == nil {
				for _, c := range nodes {
					in.AppendChild(c)
				}
				frames.Parent.AppendChild(in)
				removeUnseen(in)
				body = in
			}
		}
		n.Parent.RemoveChild(n)
	}
}

// inline are elements that do not end a word: the text in them goes on with what stands before and after them.
var inline = map[string]bool{
	"a": true, "abbr": true, "acronym": true, "b": true, "bdi": true, "bdo": true, "big": true, "cite": true, "code": true, "data": true, "del": true, "dfn": true, "em": true,
	"font": true, "i": true, "ins": true, "kbd": true, "mark": true, "nobr": true, "q": true, "s": true, "samp": true, "small": true, "span": true, "strike": true, "strong": true,
	"sub": true, "sup": true, "time": true, "tt": true, "u": true, "var": true, "wbr": true,
}

// setApart puts spaces around elements that end a word, as the text of neighbours is joined without any.
func setApart(doc *html.Node) {
	var blocks []*html.Node
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Namespace == "" && n.Parent.Type == html.ElementNode && !inline[n.Data] {
			blocks = append(blocks, n)
		}
	}
	for _, n := range blocks {
		n.Parent.InsertBefore(&html.Node{Type: html.TextNode, Data: "\n"}, n)
		n.Parent.InsertBefore(&html.Node{Type: html.TextNode, Data: "\n"}, n.NextSibling)
	}
}

// find gives the text of the first element of a name, which is none of a drawing's.
func find(doc *html.Node, name string) string {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Namespace == "" && n.Data == name {
			return words(n)
		}
	}
	return ""
}

func language(doc *html.Node) string {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == "html" {
			for _, a := range n.Attr {
				if a.Key == "lang" {
					return strings.TrimSpace(a.Val)
				}
			}
			return ""
		}
	}
	return ""
}

// words gives the text below a node, with one space between words.
func words(n *html.Node) string {
	var b strings.Builder
	all(n, &b)
	return strings.Join(strings.Fields(b.String()), " ")
}

// all gives the text below a node, without what is not for reading.
func all(n *html.Node, b *strings.Builder) {
	for c := range n.ChildNodes() {
		switch c.Type {
		case html.TextNode:
			b.WriteString(c.Data)
		case html.ElementNode:
			if !inline[c.Data] {
				b.WriteByte(' ')
			}
			switch {
			case c.Data == "script", c.Data == "style", c.Data == "head", c.Data == "title" && c.Namespace == "":
			default:
				all(c, b)
			}
			if !inline[c.Data] {
				b.WriteByte(' ')
			}
		case html.DocumentNode:
			all(c, b)
		}
	}
}

// flat reads a document without its structure.
func flat(body []byte) (t Text) {
	var title, text strings.Builder
	z, in := html.NewTokenizer(bytes.NewReader(body)), ""
	for {
		kind := z.Next()
		switch kind {
		case html.ErrorToken:
			t.Title, t.Body = strings.Join(strings.Fields(title.String()), " "), strings.Join(strings.Fields(text.String()), " ")
			return t
		case html.TextToken:
			switch {
			case in == "script" || in == "style" || unseen[in]: // all of what is in them
			case in == "title" && title.Len() == 0:
				title.Write(z.Text())
			default:
				text.Write(z.Text())
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			if in = string(name); !inline[in] {
				text.WriteByte(' ')
			}
			for in == "html" && more && t.Lang == "" {
				var key, value []byte
				if key, value, more = z.TagAttr(); string(key) == "lang" {
					t.Lang = strings.TrimSpace(string(value))
				}
			}
			if kind != html.StartTagToken {
				in = ""
			}
		}
	}
}

// clip makes s valid UTF-8 of at most n bytes.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
