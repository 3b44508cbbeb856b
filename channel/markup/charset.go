package markup

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// sniffed is how much of a document may name its encoding.
const sniffed = 1024

// UTF8 decodes a document to UTF-8, and tells in which encoding browsers write the queries of its links; nil: in UTF-8. The encoding comes from a
// byte order mark, the header, a <meta> or an XML declaration, in that order (HTML, section 13.2.3.2). Without any of them a document is UTF-8 if
// it is valid UTF-8, else windows-1252. What is in UTF-8 already is not copied.
func UTF8(body []byte, contentType string) (text []byte, queries encoding.Encoding, name string) {
	enc, name, mark := encodingOf(body, contentType)
	body = body[mark:]
	if name == "utf-8" {
		return body, nil, name
	}
	out, err := Decode(enc, body)
	if err != nil {
		return body, nil, name
	}
	if strings.HasPrefix(name, "utf-16") || name == "replacement" {
		return out, nil, name
	}
	return out, enc, name
}

// Decode decodes a text. GBK is decoded as gb18030, which has it all (Encoding Standard, section 10.1.1). In encodings of single octets those from
// 0x80 to 0x9F that stand for nothing else are control characters (section 9); the library has U+FFFD there.
func Decode(enc encoding.Encoding, body []byte) ([]byte, error) {
	if enc == simplifiedchinese.GBK {
		enc = simplifiedchinese.GB18030
	}
	switch enc {
	case japanese.ISO2022JP:
		return decodeEscapes(enc, body)
	case japanese.ShiftJIS:
		return shiftJIS().decode(enc, body)
	case traditionalchinese.Big5:
		return big5().decode(enc, body)
	}
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

// decodeEscapes decodes a text in an encoding whose state escape sequences change. One counts wherever it stands (section 12.2.1), also where the second octet of a
// character was to come, as behind a title that was cut off; the library looks for it between characters only, and would take what follows for characters of two octets.
func decodeEscapes(enc encoding.Encoding, body []byte) (out []byte, err error) {
	for len(body) > 0 {
		n := bytes.IndexByte(body[1:], 0x1b) + 1
		if n == 0 {
			n = len(body)
		}
		piece, err := enc.NewDecoder().Bytes(body[:n])
		if err != nil {
			return nil, err
		}
		out, body = append(out, piece...), body[n:]
	}
	return out, nil
}

// encodingOf finds the encoding of a document, and the length of its byte order mark.
func encodingOf(body []byte, contentType string) (enc encoding.Encoding, name string, mark int) {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return nil, "utf-8", 3
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		enc, name = Lookup("utf-16le")
		return enc, name, 2
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		enc, name = Lookup("utf-16be")
		return enc, name, 2
	}
	if enc, name = Lookup(HeaderLabel(contentType)); enc != nil {
		return enc, name, 0
	}
	// What the parser comes to overrules what a look at the beginning has found.
	said := []func([]byte) string{parsedEncoding, prescannedEncoding, declaredEncoding}
	switch MediaType(contentType) {
	case "text/plain": // it has no place for a label
		said = nil
	case "application/xhtml+xml", "application/vnd.wap.xhtml+xml": // in XML the declaration counts, and no <meta>
		if enc, name = Lookup(xmlEncoding(body)); enc == nil && utf8.Valid(body) {
			return nil, "utf-8", 0
		}
	}
	for _, label := range said {
		if enc == nil {
			enc, name = Lookup(label(body))
		}
	}
	if enc == nil && !utf8.Valid(body) {
		enc, name = Lookup("windows-1252")
	}
	if enc == nil {
		name = "utf-8"
	}
	return enc, name, 0
}

// Lookup finds an encoding by its label (Encoding Standard, "get an encoding").
func Lookup(label string) (enc encoding.Encoding, name string) {
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

// WholeCharacters takes a part of a character off the end of what was cut, if it is UTF-8 otherwise. With that part it would be taken for something
// else.
func WholeCharacters(body []byte) []byte {
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
	switch _, name := Lookup(label); name {
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
	return within(DeclaredLabel(doc))
}

// DeclaredLabel gives the label in the XML declaration with which a text begins; "": there is none.
func DeclaredLabel(text []byte) (label string) {
	head := text[:min(len(text), sniffed)]
	end := bytes.IndexByte(head, '>')
	if !bytes.HasPrefix(head, []byte("<?xml")) || end < 0 {
		return ""
	}
	t := NewTokenizer(head[len("<?xml") : end+1])
	said := false
	t.Attributes(func(name, value []byte) {
		if !said && EqualFold(name, "encoding") {
			label, said = strings.TrimSpace(string(value)), true
		}
	})
	return label
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
	return firstMeta(NewTokenizer(doc[:min(len(doc), sniffed)]), false, func(t *Tokenizer, _ []byte) { t.Attributes(nil) })
}

// parsedEncoding gives the encoding that the first such <meta> of a whole document names, as the parser comes to it: not in a script or the like
// (HTML, section 13.2.3.4, "changing the encoding while parsing").
func parsedEncoding(doc []byte) string {
	if IndexFold(doc, "charset") < 0 {
		return ""
	}
	return firstMeta(NewTokenizer(doc), true, func(t *Tokenizer, name []byte) {
		t.Attributes(nil)
		switch held := holdsText(name); held {
		case "":
		case "script":
			t.Script()
		case "plaintext":
			t.Rest()
		default:
			t.RawText(held)
		}
	})
}

// textElements are the elements of HTML that hold text and no markup, by the length of their names.
var textElements = [...][]string{3: {"xmp"}, 5: {"style", "title"}, 6: {"iframe", "script"}, 7: {"noembed"}, 8: {"noframes", "textarea"}, 9: {"plaintext"}}

// holdsText gives the name of an element in lower case if it holds text and no markup; "": it may hold markup.
func holdsText(name []byte) string {
	if len(name) < len(textElements) {
		for _, known := range textElements[len(name)] {
			if EqualFold(name, known) {
				return known
			}
		}
	}
	return ""
}

// firstMeta gives the encoding that the first such <meta> names. Parsed says that its attributes are read as elements have them: with character
// references, and with the content where the charset is none. Pass is called for every other start tag, to go behind it.
func firstMeta(t Tokenizer, parsed bool, pass func(t *Tokenizer, name []byte)) string {
	for {
		kind, name := t.Next(false)
		switch {
		case kind == EndOfFile:
			return ""
		case kind != StartTag:
			continue
		case !EqualFold(name, "meta"):
			pass(&t, name)
			continue
		}
		var direct, content, equiv []byte
		_, whole := t.Attributes(func(name, value []byte) {
			for _, a := range [...]struct {
				name string
				to   *[]byte
			}{{"charset", &direct}, {"content", &content}, {"http-equiv", &equiv}} {
				if EqualFold(name, a.name) && *a.to == nil {
					if *a.to = append([]byte{}, value...); parsed {
						*a.to = ValueBytes(*a.to)
					}
				}
			}
		})
		label := string(direct)
		enc, _ := Lookup(label)
		if enc == nil && (direct == nil || parsed) && bytes.EqualFold(equiv, []byte("content-type")) {
			label = metaLabel(string(content))
			enc, _ = Lookup(label)
		}
		if whole && enc != nil {
			return within(label)
		}
	}
}

// metaLabel gives the charset in the content of a <meta> (HTML, "extracting a character encoding from a meta element").
func metaLabel(content string) string {
	for {
		i := IndexFold([]byte(content), "charset")
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

// IndexFold finds a word of ASCII letters in any case. bytes.ToLower is not for it: it changes the length of what is no UTF-8.
func IndexFold(b []byte, word string) int {
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
