package markup

import "bytes"

// ByRoot gives the Content-Type by which a body is to be read: XHTML's for a document of XML that is XHTML by its root, as browsers show it.
func ByRoot(contentType string, body []byte) string {
	t := MediaType(contentType)
	if t != "text/xml" && t != "application/xml" && (t != "" || !bytes.HasPrefix(bytes.TrimPrefix(body, []byte(utf8Mark)), []byte("<?xml"))) {
		return contentType
	}
	tag, _, _ := bytes.Cut(FirstTag(body), []byte(">"))
	end := bytes.IndexAny(tag, " \t\r\n\f")
	if end < 0 || string(tag[:end]) != "<html" || !bytes.Contains(tag[end:], []byte("http://www.w3.org/1999/xhtml")) {
		return contentType
	}
	const xhtml = "application/xhtml+xml"
	if label := HeaderLabel(contentType); label != "" {
		return xhtml + `; charset="` + label + `"`
	}
	return xhtml
}

const utf8Mark = "\xef\xbb\xbf"

// FirstTag gives the beginning of a body from its first element on; nil: there is none near its beginning.
func FirstTag(body []byte) []byte {
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
