package crawl

import (
	"bytes"
	"net/http"
	"strings"
)

// contentTypeOf gives the Content-Type fields of a response as one list.
func contentTypeOf(h http.Header) string { return strings.Join(h.Values("Content-Type"), ", ") }

// mediaType gives the type in a Content-Type, in lower case and without parameters; "": no valid type. As in browsers, the last of several types
// counts and "*/*" says nothing (Fetch, "extract a MIME type"); nor do the two types that mean unknown (MIME Sniffing, section 7). If a type is invalid its first word counts where it is clear enough:
// "text/html charset=utf-8", "html".
func mediaType(contentType string) string {
	last := ""
	for part := range typesIn(strings.ToLower(contentType)) {
		essence, _, _ := strings.Cut(part, ";")
		if word := strings.Fields(essence); len(word) > 0 && word[0] != "*/*" && word[0] != "unknown/unknown" && word[0] != "application/unknown" {
			if t := typeOf(word[0]); t != "" {
				last = t
			}
		}
	}
	return last
}

// typesIn cuts a list of types at its commas that are not in quotes. A quote that is not closed goes to the end.
func typesIn(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		from, inside := 0, false
		for i := 0; i < len(list); i++ {
			switch c := list[i]; {
			case c == '"':
				inside = !inside
			case c == '\\' && inside:
				i++
			case c == ',' && !inside:
				if !yield(list[from:i]) {
					return
				}
				from = i + 1
			}
		}
		yield(list[from:])
	}
}

// typeOf gives the type that a word stands for; "": none.
func typeOf(word string) string {
	switch word {
	case "html", "htm", "xhtml":
		return "text/html"
	case "xml":
		return "text/xml"
	}
	major, minor, _ := strings.Cut(word, "/")
	if !isTypeToken(major) || !isTypeToken(minor) {
		return ""
	}
	return word
}

// isTypeToken reports whether a word is a token of HTTP (RFC 9110, section 5.6.2), in lower case.
func isTypeToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// isHTML reports whether a body is HTML by its type, or by its beginning if it has none.
func isHTML(contentType string, body []byte) bool {
	switch mediaType(contentType) {
	case "text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml":
		return true
	case "":
		return strings.HasPrefix(http.DetectContentType(body), "text/html") && !beginsFeed(body)
	}
	return false
}

// isXML does the same for XML.
func isXML(contentType string, body []byte) bool {
	t := mediaType(contentType)
	return strings.Contains(t, "xml") || t == "" && (strings.HasPrefix(http.DetectContentType(body), "text/xml") || beginsFeed(body))
}

// beginsFeed reports whether the first element of a body is that of a feed.
func beginsFeed(body []byte) bool {
	body = bytes.TrimPrefix(body[:min(len(body), maxProlog)], []byte("\xef\xbb\xbf"))
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
			for _, root := range []string{"<rss", "<feed", "<rdf:RDF"} {
				if rest, ok := bytes.CutPrefix(body, []byte(root)); ok && len(rest) > 0 && bytes.IndexByte([]byte(" \t\r\n\f>"), rest[0]) >= 0 {
					return true
				}
			}
			return false
		}
		i := bytes.Index(body, []byte(end))
		if i < 0 {
			return false
		}
		body = body[i+len(end):]
	}
}

const maxProlog = 4 << 10 // octets that may come before the first element of a feed

// wanted reports whether a search engine can use a content type. A body without a valid type may be anything.
func wanted(contentType string) bool {
	major, minor, _ := strings.Cut(mediaType(contentType), "/")
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
