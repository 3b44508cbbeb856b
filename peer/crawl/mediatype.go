package crawl

import (
	"bytes"
	"net/http"
	"strings"

	"shoal/channel/markup"
)

// contentTypeOf gives the Content-Type fields of a response as one list.
func contentTypeOf(h http.Header) string { return strings.Join(h.Values("Content-Type"), ", ") }

// isHTML reports whether a body is HTML by its type, or by its beginning if it has none.
func isHTML(contentType string, body []byte) bool {
	t := markup.MediaType(contentType)
	return markup.IsHTML(t) || t == "" && strings.HasPrefix(http.DetectContentType(body), "text/html") && !beginsFeed(body)
}

// asXHTML gives the type by which a body is to be read: XHTML's for a document of XML that is XHTML by its root, as browsers show it.
func asXHTML(contentType string, body []byte) string {
	t := markup.MediaType(contentType)
	if t != "text/xml" && t != "application/xml" && (t != "" || !bytes.HasPrefix(bytes.TrimPrefix(body, []byte(utf8Mark)), []byte("<?xml"))) {
		return contentType
	}
	tag, _, _ := bytes.Cut(firstTag(body), []byte(">"))
	end := bytes.IndexAny(tag, " \t\r\n\f")
	if end < 0 || string(tag[:end]) != "<html" || !bytes.Contains(tag[end:], []byte("http://www.w3.org/1999/xhtml")) {
		return contentType
	}
	const xhtml = "application/xhtml+xml"
	if label := markup.HeaderLabel(contentType); label != "" {
		return xhtml + `; charset="` + label + `"`
	}
	return xhtml
}

const utf8Mark = "\xef\xbb\xbf"

// isXML does the same for XML.
func isXML(contentType string, body []byte) bool {
	t := markup.MediaType(contentType)
	return strings.Contains(t, "xml") || t == "" && (strings.HasPrefix(http.DetectContentType(body), "text/xml") || beginsFeed(body))
}

// beginsFeed reports whether the first element of a body is that of a feed.
func beginsFeed(body []byte) bool {
	tag := firstTag(body)
	for _, root := range []string{"<rss", "<feed", "<rdf:RDF"} {
		if rest, ok := bytes.CutPrefix(tag, []byte(root)); ok && len(rest) > 0 && bytes.IndexByte([]byte(" \t\r\n\f>"), rest[0]) >= 0 {
			return true
		}
	}
	return false
}

// firstTag gives the beginning of a body from its first element on; nil: there is none near its beginning.
func firstTag(body []byte) []byte {
	body = bytes.TrimPrefix(body[:min(len(body), maxProlog)], []byte(utf8Mark))
	for {
		body = bytes.TrimLeft(body, " \t\r\n\f")
		end := ">"
		switch {
		case bytes.HasPrefix(body, []byte("<!--")):
			end = "-->"
		case bytes.HasPrefix(body, []byte("<?")):
			end = "?>"
		case bytes.HasPrefix(body, []byte("<!")):
		default:
			return body
		}
		i := bytes.Index(body, []byte(end))
		if i < 0 {
			return nil
		}
		body = body[i+len(end):]
	}
}

const maxProlog = 4 << 10 // octets that may come before the first element of a document

// wanted reports whether a search engine can use a content type. A body without a valid type may be anything.
func wanted(contentType string) bool {
	major, minor, _ := strings.Cut(markup.MediaType(contentType), "/")
	switch major {
	case "", "text":
		return true
	case "application":
		switch minor {
		case "json", "xml", "pdf", "rtf", "msword", "postscript", "epub+zip":
			return true
		}
		return strings.HasSuffix(minor, "+xml") || strings.HasSuffix(minor, "+json") || strings.HasPrefix(minor, "vnd.openxmlformats") ||
			strings.HasPrefix(minor, "vnd.oasis.opendocument")
	}
	return false
}
