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
	return markup.IsHTML(t) && !mislabelled(t, body) || t == "" && strings.HasPrefix(http.DetectContentType(body), "text/html") && !beginsFeed(body)
}

// isXML does the same for XML.
func isXML(contentType string, body []byte) bool {
	t := markup.MediaType(contentType)
	return strings.Contains(t, "xml") || mislabelled(t, body) || t == "" && (strings.HasPrefix(http.DetectContentType(body), "text/xml") || beginsFeed(body))
}

// mislabelled reports whether a body is a feed that its server calls HTML, as many do (MIME Sniffing Standard, section 7.3).
func mislabelled(mediaType string, body []byte) bool {
	return mediaType == "text/html" && beginsFeed(body)
}

// beginsFeed reports whether the first element of a body is that of a feed.
func beginsFeed(body []byte) bool {
	tag := markup.FirstTag(body)
	for _, root := range []string{"<rss", "<feed", "<rdf:RDF"} {
		if rest, ok := bytes.CutPrefix(tag, []byte(root)); ok && len(rest) > 0 && bytes.IndexByte([]byte(" \t\r\n\f>"), rest[0]) >= 0 {
			return true
		}
	}
	return false
}

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
