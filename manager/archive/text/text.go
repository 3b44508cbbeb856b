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
	if media == "text/plain" {
		if t.Body = clip(strings.TrimSpace(string(body)), MaxOut); t.Body == "" {
			return Text{}, fmt.Errorf("%w: empty document", ErrNoText)
		}
		return t, nil
	}
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return Text{}, fmt.Errorf("%w: %w", ErrNoText, err)
	}
	if n := size(doc); n > MaxTree {
		return Text{}, fmt.Errorf("%w: more than %d nodes", ErrNoText, MaxTree)
	}
	t = Text{Title: find(doc, "title"), Lang: language(doc)}
	u, err := url.Parse(pageURL)
	if err != nil {
		u = nil
	}
	got, err := trafilatura.ExtractDocument(doc, options(u))
	switch {
	case err == nil && strings.TrimSpace(got.ContentText) != "":
		t.Body = got.ContentText
		if t.Title == "" {
			t.Title = got.Metadata.Title
		}
	default: // a page of few words: all of them
		var b strings.Builder
		all(doc, &b)
		t.Body = strings.Join(strings.Fields(b.String()), " ")
	}
	t.Title, t.Lang, t.Body = clip(t.Title, maxMeta), clip(t.Lang, maxMeta), clip(t.Body, MaxOut)
	if t.Body == "" && t.Title == "" {
		return Text{}, fmt.Errorf("%w: empty document", ErrNoText)
	}
	return t, nil
}

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

// find gives the text of the first element of a name.
func find(doc *html.Node, name string) string {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			var b strings.Builder
			all(n, &b)
			return strings.Join(strings.Fields(b.String()), " ")
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

// all gives the text below a node, without what is not for reading.
func all(n *html.Node, b *strings.Builder) {
	for c := range n.ChildNodes() {
		switch c.Type {
		case html.TextNode:
			b.WriteString(c.Data)
			b.WriteByte(' ')
		case html.ElementNode:
			switch c.Data {
			case "script", "style", "template", "noscript", "head":
			default:
				all(c, b)
			}
		case html.DocumentNode:
			all(c, b)
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
