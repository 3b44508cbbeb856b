package markup

import (
	"bytes"
	"strings"
)

// ByRoot gives the Content-Type by which a body is to be read: XHTML's for a document of XML that is XHTML by its root, as browsers show it.
func ByRoot(contentType string, body []byte) string {
	t := MediaType(contentType)
	if t != "text/xml" && t != "application/xml" && t != "" {
		return contentType
	}
	head := beginning(contentType, body)
	if t == "" && !bytes.HasPrefix(head, []byte("<?xml")) {
		return contentType
	}
	tag, _, _ := bytes.Cut(behindProlog(head), []byte(">"))
	end := bytes.IndexAny(tag, " \t\r\n\f")
	if end < 0 || string(tag[:end]) != "<html" || !bytes.Contains(tag[end:], []byte("http://www.w3.org/1999/xhtml")) {
		return contentType
	}
	const xhtml = "application/xhtml+xml"
	if label := HeaderLabel(contentType); label != "" && !strings.ContainsAny(label, `"\`) { // no encoding has these in its label
		return xhtml + `; charset="` + label + `"`
	}
	return xhtml
}

const utf8Mark = "\xef\xbb\xbf"

// FirstTag gives the beginning of a body, in UTF-8, from its first element on; nil: there is none near its beginning.
func FirstTag(body []byte) []byte { return behindProlog(beginning("", body)) }

// FromRoot gives a document of XML in UTF-8 from its first element on; all of it if there is none. What its DOCTYPE declares is no part of what it shows.
func FromRoot(doc []byte) []byte {
	if root := behindProlog(doc); root != nil {
		return root
	}
	return doc
}

// beginning gives the beginning of a body without its byte order mark. What is UTF-16, by its mark, its header or its XML declaration, is decoded.
func beginning(contentType string, body []byte) []byte {
	mark, label := 2, ""
	switch {
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		label = "utf-16le"
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		label = "utf-16be"
	case !bytes.HasPrefix(body, []byte(utf8Mark)):
		mark = 0
		if _, name := Lookup(HeaderLabel(contentType)); strings.HasPrefix(name, "utf-16") {
			label = name
		} else if name == "" {
			label = wideEncoding(body)
		}
	}
	if label == "" {
		return bytes.TrimPrefix(body[:min(len(body), maxProlog)], []byte(utf8Mark))
	}
	enc, _ := Lookup(label)
	text, err := Decode(enc, body[mark:min(len(body), 2*maxProlog)])
	if err != nil {
		return nil
	}
	return text
}

const maxProlog = 4 << 10 // characters that may come before the first element of a document

// behindProlog gives a document from its first element on: behind comments, instructions and declarations; nil: it ends before. A declaration that is
// not written well ends at its first ">", and no other is looked through after it, which would take quadratic time.
func behindProlog(doc []byte) []byte {
	for well := true; ; {
		doc = bytes.TrimLeft(doc, " \t\r\n\f")
		var end int
		switch {
		case bytes.HasPrefix(doc, []byte("<!--")):
			end = behind(doc, len("<!--"), "-->")
		case bytes.HasPrefix(doc, []byte("<?")):
			end = behind(doc, len("<?"), "?>")
		case bytes.HasPrefix(doc, []byte("<!")):
			if well {
				end = declarationEnd(doc)
			}
			if well = end > 0; !well {
				end = behind(doc, len("<!"), ">")
			}
		default:
			return doc
		}
		if end == len(doc) {
			return nil
		}
		doc = doc[end:]
	}
}

// declarationEnd gives the end of the declaration that a text begins with; 0: it does not end. A DOCTYPE may hold others between brackets, its internal
// subset (XML, section 2.8).
func declarationEnd(d []byte) int {
	subset := false
	for i := len("<!"); i < len(d); i++ {
		switch c := d[i]; {
		case subset && bytes.HasPrefix(d[i:], []byte("<!--")):
			i = behind(d, i+len("<!--"), "-->") - 1
		case subset && bytes.HasPrefix(d[i:], []byte("<?")):
			i = behind(d, i, "?>") - 1
		case c == '"' || c == '\'':
			i = behind(d, i+1, string(c)) - 1
		case c == '[':
			subset = true
		case c == ']':
			subset = false
		case c == '>' && !subset:
			return i + 1
		}
	}
	return 0
}
