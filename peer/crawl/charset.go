package crawl

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"

	"shoal/channel/sitemap"
)

// sniffed is how much of a document may name its encoding.
const sniffed = 1024

// utf8Of decodes a document to UTF-8, and tells how to encode queries of its links. The encoding comes from a byte order mark, the header, a
// <meta> or an XML declaration, in that order (HTML, section 13.2.3.2), or else a <meta> that comes late. Without any of them a document is UTF-8
// if it is valid UTF-8, else windows-1252.
func utf8Of(body []byte, contentType string) ([]byte, *query) {
	enc, name, mark := encodingOf(body, contentType)
	body = body[mark:]
	if name == "utf-8" {
		return body, nil
	}
	out, err := enc.NewDecoder().Bytes(body)
	if err != nil {
		return body, nil
	}
	if strings.HasPrefix(name, "utf-16") || name == "replacement" {
		return out, nil
	}
	return out, &query{enc}
}

// encodingOf finds the encoding of a document, and the length of its byte order mark.
func encodingOf(body []byte, contentType string) (enc encoding.Encoding, name string, mark int) {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return nil, "utf-8", 3
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		enc, name = charset.Lookup("utf-16le")
		return enc, name, 2
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		enc, name = charset.Lookup("utf-16be")
		return enc, name, 2
	}
	if enc, name = charset.Lookup(headerLabel(contentType)); enc != nil {
		return enc, name, 0
	}
	head := body[:min(len(body), sniffed)]
	said := [...]func([]byte) string{metaEncoding, declaredEncoding}
	if mediaType(contentType) == "application/xhtml+xml" { // in XML the declaration counts
		said[0], said[1] = said[1], said[0]
	}
	for _, label := range said {
		if enc == nil {
			enc, name = charset.Lookup(label(head))
		}
	}
	if enc == nil && len(body) > sniffed {
		enc, name = charset.Lookup(lateEncoding(body))
	}
	if enc == nil && !utf8.Valid(body) {
		enc, name = charset.Lookup("windows-1252")
	}
	if enc == nil {
		name = "utf-8"
	}
	return enc, name, 0
}

// within corrects a label that was found inside a document. The document was read octet by octet, so it cannot be UTF-16.
func within(label string) string {
	switch _, name := charset.Lookup(label); name {
	case "utf-16le", "utf-16be":
		return "utf-8"
	case "x-user-defined":
		return "windows-1252"
	}
	return label
}

// declaredEncoding gives the encoding of an XML declaration, which may itself be in UTF-16.
func declaredEncoding(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("<\x00?\x00x\x00")):
		return "utf-16le"
	case bytes.HasPrefix(head, []byte("\x00<\x00?\x00x")):
		return "utf-16be"
	}
	return within(sitemap.DeclaredEncoding(head))
}

// metaEncoding gives the encoding that the first such <meta> names ("prescan a byte stream to determine its encoding").
func metaEncoding(head []byte) string {
	return firstMeta(tokenizer{doc: head}, func(t *tokenizer, _ []byte) { t.attributes(nil) })
}

// lateEncoding gives the encoding that the first such <meta> of a whole document names, as the parser comes to it: not in a script or the like
// (HTML, section 13.2.3.4, "changing the encoding while parsing").
func lateEncoding(doc []byte) string {
	if indexFold(doc, "charset") < 0 {
		return ""
	}
	return firstMeta(tokenizer{doc: doc}, func(t *tokenizer, name []byte) {
		is := elementOf(name)
		t.attributes(nil)
		switch {
		case is == elScript:
			t.script()
		case is == elPlaintext:
			t.at = len(doc)
		case is.has(holdsText):
			t.rawText(elements[is].name)
		}
	})
}

// firstMeta gives the encoding that the first such <meta> names. Pass is called for every other start tag, to go behind it.
func firstMeta(t tokenizer, pass func(t *tokenizer, name []byte)) string {
	for {
		kind, name := t.next(false)
		switch {
		case kind == endOfFile:
			return ""
		case kind != startTag:
			continue
		case !equalFold(name, "meta"):
			pass(&t, name)
			continue
		}
		var direct, content, equiv []byte
		_, whole := t.attributes(func(name, value []byte) {
			for _, a := range [...]struct {
				name string
				to   *[]byte
			}{{"charset", &direct}, {"content", &content}, {"http-equiv", &equiv}} {
				if equalFold(name, a.name) && *a.to == nil {
					*a.to = append([]byte{}, value...)
				}
			}
		})
		label := string(direct)
		if direct == nil && bytes.EqualFold(equiv, []byte("content-type")) {
			label = labelIn(string(content))
		}
		if enc, _ := charset.Lookup(label); whole && enc != nil {
			return within(label)
		}
	}
}

// headerLabel gives the charset of the type that counts in a list of types: the last one. It has the charset of the one before it if it is the
// same type and names none (Fetch, "extract a MIME type").
func headerLabel(contentType string) (label string) {
	last := ""
	for part := range typesIn(contentType) {
		t, said := mediaType(part), labelIn(withoutQuoted(part))
		if t == "" && last != "" && said == "" {
			continue
		}
		if t != last || said != "" {
			label = said
		}
		last = t
	}
	return label
}

// quoted is a parameter whose value is a string in quotes.
var quoted = regexp.MustCompile(`([^;,="\s]+)\s*=\s*"[^"]*"`)

// withoutQuoted empties the strings in quotes of a Content-Type, in which anything may stand, but the charset.
func withoutQuoted(contentType string) string {
	if !strings.Contains(contentType, `"`) {
		return contentType
	}
	return quoted.ReplaceAllStringFunc(contentType, func(parameter string) string {
		name, _, _ := strings.Cut(parameter, "=")
		if name = strings.TrimSpace(name); strings.EqualFold(name, "charset") {
			return parameter
		}
		return name + "="
	})
}

// labelIn gives the charset in a Content-Type, even if it is badly written.
func labelIn(contentType string) string {
	for rest := contentType; ; {
		i := indexFold([]byte(rest), "charset")
		if i < 0 {
			return ""
		}
		inName := i > 0 && (isLetter(rest[i-1]) || rest[i-1] == '-' || rest[i-1] == '_') // "x-charset"
		rest = strings.TrimLeft(rest[i+len("charset"):], " \t\n\f\r")
		if inName || !strings.HasPrefix(rest, "=") {
			continue
		}
		value := strings.TrimLeft(rest[1:], " \t\n\f\r")
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			label, _, _ := strings.Cut(value[1:], value[:1])
			return label
		}
		if end := strings.IndexAny(value, "; ,\t\n\f\r\"'"); end >= 0 {
			value = value[:end]
		}
		return value
	}
}

// indexFold finds a word of ASCII letters in any case. bytes.ToLower is not for it: it changes the length of what is no UTF-8.
func indexFold(b []byte, word string) int {
	for i := 0; i+len(word) <= len(b); i++ {
		j := 0
		for j < len(word) && lower(b[i+j]) == word[j] {
			j++
		}
		if j == len(word) {
			return i
		}
	}
	return -1
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// query encodes the queries of references as browsers do for a page that is not in UTF-8: in the page's own encoding, with what that
// cannot say as a number in "&#...;" (URL Standard, "percent-encode after encoding"). Nil does nothing.
type query struct{ enc encoding.Encoding }

func (q *query) encode(ref string) string {
	from := strings.IndexAny(ref, "?#")
	if q == nil || from < 0 || ref[from] != '?' || isASCII(ref[from:]) {
		return ref
	}
	end := len(ref)
	if i := strings.IndexByte(ref, '#'); i >= 0 {
		end = i
	}
	var b strings.Builder
	b.WriteString(ref[:from])
	for rest := ref[from:end]; rest != ""; {
		n := 0
		for n < len(rest) && rest[n] < utf8.RuneSelf {
			n++
		}
		b.WriteString(rest[:n])
		rest = rest[n:]
		if rest == "" {
			break
		}
		r, n := utf8.DecodeRuneInString(rest)
		out, _ := encoding.HTMLEscapeUnsupported(q.enc.NewEncoder()).String(string(r))
		if strings.HasPrefix(out, "&#") {
			out = strings.NewReplacer("&", "%26", "#", "%23", ";", "%3B").Replace(out)
		}
		for i := range len(out) {
			if out[i] < utf8.RuneSelf {
				b.WriteByte(out[i])
			} else {
				const hex = "0123456789ABCDEF"
				b.Write([]byte{'%', hex[out[i]>>4], hex[out[i]&15]})
			}
		}
		rest = rest[n:]
	}
	b.WriteString(ref[end:])
	return b.String()
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
