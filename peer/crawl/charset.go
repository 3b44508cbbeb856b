package crawl

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"

	"shoal/channel/sitemap"
)

// sniffed is how much of a document may name its encoding.
const sniffed = 1024

// utf8Of decodes a document to UTF-8, and tells how to encode queries of its links. The encoding comes from a byte order mark, the header, a
// <meta> or an XML declaration, in that order (HTML, section 13.2.3.2). Without any of them a document is UTF-8 if it is valid UTF-8, else
// windows-1252.
func utf8Of(body []byte, contentType string) ([]byte, *query) {
	enc, name, mark := encodingOf(body, contentType)
	body = body[mark:]
	if name == "utf-8" {
		return body, nil
	}
	out, err := decode(enc, body)
	if err != nil {
		return body, nil
	}
	if strings.HasPrefix(name, "utf-16") || name == "replacement" {
		return out, nil
	}
	return out, &query{enc, name}
}

// decode decodes a document. In encodings of single octets those from 0x80 to 0x9F that stand for nothing else are control characters (Encoding
// Standard, section 9); the library has U+FFFD there.
func decode(enc encoding.Encoding, body []byte) ([]byte, error) {
	single, ok := enc.(*charmap.Charmap)
	if !ok {
		return enc.NewDecoder().Bytes(body)
	}
	var runes [256]rune
	for i := range runes {
		if runes[i] = single.DecodeByte(byte(i)); runes[i] == utf8.RuneError && i < 0xa0 {
			runes[i] = rune(i)
		}
	}
	out := make([]byte, 0, len(body)+len(body)/4)
	for _, c := range body {
		out = utf8.AppendRune(out, runes[c])
	}
	return out, nil
}

// encodingOf finds the encoding of a document, and the length of its byte order mark.
func encodingOf(body []byte, contentType string) (enc encoding.Encoding, name string, mark int) {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return nil, "utf-8", 3
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		enc, name = lookup("utf-16le")
		return enc, name, 2
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		enc, name = lookup("utf-16be")
		return enc, name, 2
	}
	if enc, name = lookup(headerLabel(contentType)); enc != nil {
		return enc, name, 0
	}
	// What the parser comes to overrules what a look at the beginning has found.
	said := [...]func([]byte) string{parsedEncoding, prescannedEncoding, declaredEncoding}
	if mediaType(contentType) == "application/xhtml+xml" { // in XML the declaration counts, and no <meta>
		if enc, name = lookup(xmlEncoding(body)); enc == nil && utf8.Valid(body) {
			return nil, "utf-8", 0
		}
	}
	for _, label := range said {
		if enc == nil {
			enc, name = lookup(label(body))
		}
	}
	if enc == nil && !utf8.Valid(body) {
		enc, name = lookup("windows-1252")
	}
	if enc == nil {
		name = "utf-8"
	}
	return enc, name, 0
}

// lookup finds an encoding by its label (Encoding Standard, "get an encoding").
func lookup(label string) (enc encoding.Encoding, name string) {
	label = strings.Trim(label, " \t\n\f\r")
	if strings.TrimSpace(label) != label { // the library takes away other white space as well
		return nil, ""
	}
	enc, err := htmlindex.Get(label)
	if err != nil {
		return nil, ""
	}
	if name, err = htmlindex.Name(enc); err != nil {
		return nil, ""
	}
	return enc, name
}

// wholeCharacters takes a part of a character off the end of what was cut, if it is UTF-8 otherwise. With that part it would be taken for something
// else.
func wholeCharacters(body []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(body); n++ {
		whole, last := body[:len(body)-n], body[len(body)-n:]
		if utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) && utf8.Valid(whole) {
				return whole
			}
			break
		}
	}
	return body
}

// within corrects a label that was found inside a document. The document was read octet by octet, so it cannot be UTF-16.
func within(label string) string {
	switch _, name := lookup(label); name {
	case "utf-16le", "utf-16be":
		return "utf-8"
	case "x-user-defined":
		return "windows-1252"
	}
	return label
}

// xmlEncoding gives the encoding of an XML declaration, which may itself be in UTF-16.
func xmlEncoding(doc []byte) string {
	if label := wideEncoding(doc); label != "" {
		return label
	}
	return within(sitemap.DeclaredEncoding(doc))
}

// wideEncoding tells of an XML declaration in UTF-16.
func wideEncoding(doc []byte) string {
	switch {
	case bytes.HasPrefix(doc, []byte("<\x00?\x00x\x00")):
		return "utf-16le"
	case bytes.HasPrefix(doc, []byte("\x00<\x00?\x00x")):
		return "utf-16be"
	}
	return ""
}

// declaredEncoding gives the encoding of an XML declaration in a document of HTML, where its spelling is exact (HTML, "get an XML encoding").
func declaredEncoding(doc []byte) string {
	head, _, ended := bytes.Cut(doc[:min(len(doc), sniffed)], []byte(">"))
	if !bytes.HasPrefix(head, []byte("<?xml")) || !ended {
		return wideEncoding(doc)
	}
	_, rest, _ := bytes.Cut(head, []byte("encoding"))
	rest, ok := bytes.CutPrefix(bytes.TrimLeftFunc(rest, isLow), []byte("="))
	rest = bytes.TrimLeftFunc(rest, isLow)
	if !ok || len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
		return ""
	}
	label, _, ended := bytes.Cut(rest[1:], rest[:1])
	if !ended || bytes.ContainsFunc(label, isLow) {
		return ""
	}
	return within(string(label))
}

// isLow reports whether a character is a space or a control character.
func isLow(r rune) bool { return r <= ' ' }

// prescannedEncoding gives the encoding that the first such <meta> at the beginning names ("prescan a byte stream to determine its encoding").
func prescannedEncoding(doc []byte) string {
	return firstMeta(tokenizer{doc: doc[:min(len(doc), sniffed)]}, false, func(t *tokenizer, _ []byte) { t.attributes(nil) })
}

// parsedEncoding gives the encoding that the first such <meta> of a whole document names, as the parser comes to it: not in a script or the like
// (HTML, section 13.2.3.4, "changing the encoding while parsing").
func parsedEncoding(doc []byte) string {
	if indexFold(doc, "charset") < 0 {
		return ""
	}
	return firstMeta(tokenizer{doc: doc}, true, func(t *tokenizer, name []byte) {
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

// firstMeta gives the encoding that the first such <meta> names. Parsed says that its attributes are read as elements have them: with character
// references, and with the content where the charset is none. Pass is called for every other start tag, to go behind it.
func firstMeta(t tokenizer, parsed bool, pass func(t *tokenizer, name []byte)) string {
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
					if *a.to = append([]byte{}, value...); parsed {
						*a.to = decoded(*a.to)
					}
				}
			}
		})
		label := string(direct)
		enc, _ := lookup(label)
		if enc == nil && (direct == nil || parsed) && bytes.EqualFold(equiv, []byte("content-type")) {
			label = metaLabel(string(content))
			enc, _ = lookup(label)
		}
		if whole && enc != nil {
			return within(label)
		}
	}
}

// metaLabel gives the charset in the content of a <meta> (HTML, "extracting a character encoding from a meta element").
func metaLabel(content string) string {
	for {
		i := indexFold([]byte(content), "charset")
		if i < 0 {
			return ""
		}
		content = strings.TrimLeft(content[i+len("charset"):], " \t\n\f\r")
		value, ok := strings.CutPrefix(content, "=")
		if !ok {
			continue
		}
		value = strings.TrimLeft(value, " \t\n\f\r")
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			label, _, closed := strings.Cut(value[1:], value[:1])
			if !closed {
				return ""
			}
			return label
		}
		if end := strings.IndexAny(value, "; \t\n\f\r"); end >= 0 {
			value = value[:end]
		}
		return value
	}
}

// headerLabel gives the charset of the type that counts in a list of types: the last one. It has the charset of the one before it if it is the
// same type and names none (Fetch, "extract a MIME type").
func headerLabel(contentType string) (label string) {
	last := ""
	for part := range typesIn(contentType) {
		t, said := mediaType(part), labelIn(withoutQuoted(part))
		if t == "" && last != "" && (said == "" || strings.HasPrefix(strings.TrimSpace(part), "*/*")) {
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

// labelIn gives the charset in a Content-Type header, even if it is badly written.
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
		if value == "" { // a parameter without a value is none
			continue
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
