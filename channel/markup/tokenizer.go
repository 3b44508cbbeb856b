package markup

import "bytes"

// Tokenizer cuts an HTML document into tokens as the HTML standard does (section 13.2.5), as far as that decides which elements there are. It
// does not change or copy the document. Tokens are parts of it.
//
// In the standard the tree that is being built decides how the tokenizer goes on. Here the caller does: it calls RawText, Script or Rest after
// the start tag of an element without markup, and tells Next whether CDATA sections are allowed.
type Tokenizer struct {
	doc []byte
	at  int // where the next token begins
}

// NewTokenizer begins with a document.
func NewTokenizer(doc []byte) Tokenizer { return Tokenizer{doc: doc} }

// Kind says what Next has found.
type Kind uint8

// The kinds of tokens.
const (
	EndOfFile Kind = iota
	TextToken
	StartTag // the token is its name; the caller must call Attributes next
	EndTag   // the token is its name
)

// Next gives the next token. It passes over comments, doctypes and the like. With cdata, as in SVG and MathML, it passes over CDATA sections
// too; elsewhere "<![CDATA[" begins a comment that ends at the next ">".
func (t *Tokenizer) Next(cdata bool) (kind Kind, token []byte) {
	d, start := t.doc, t.at
	for i := start; ; {
		n := bytes.IndexByte(d[i:], '<')
		if n < 0 || i+n+1 >= len(d) {
			t.at = len(d)
			if start == len(d) {
				return EndOfFile, nil
			}
			return TextToken, d[start:]
		}
		i += n
		c := d[i+1]
		if c == '/' && i+2 >= len(d) || !IsLetter(c) && c != '/' && c != '!' && c != '?' {
			i++ // "<" is text here
			continue
		}
		if i > start {
			t.at = i
			return TextToken, d[start:i]
		}
		switch {
		case IsLetter(c):
			end := t.tagName(i + 1)
			return StartTag, d[i+1 : end]
		case c == '/' && IsLetter(d[i+2]):
			end := t.tagName(i + 2)
			if _, whole := t.Attributes(nil); !whole {
				return EndOfFile, nil
			}
			return EndTag, d[i+2 : end]
		case c == '!' && bytes.HasPrefix(d[i+2:], []byte("--")):
			i = commentEnd(d, i+len("<!--"))
		case c == '!' && cdata && bytes.HasPrefix(d[i+2:], []byte("[CDATA[")):
			i = behind(d, i, "]]>")
		default: // a doctype, or what the standard calls a bogus comment: "<!", "<?" or "</" before anything else
			i = behind(d, i+2, ">")
		}
		start = i
	}
}

// tagName reads a tag's name and returns its end.
func (t *Tokenizer) tagName(from int) int {
	i := from
	for i < len(t.doc) && !endsName[t.doc[i]] {
		i++
	}
	t.at = i
	return i
}

// endsName are the octets that end the name of a tag, and endsAttribute those that end an attribute's.
var (
	endsName      = [256]bool{'\t': true, '\n': true, '\f': true, '\r': true, ' ': true, '/': true, '>': true}
	endsAttribute = [256]bool{'\t': true, '\n': true, '\f': true, '\r': true, ' ': true, '/': true, '>': true, '=': true}
	isSpace       = [256]bool{'\t': true, '\n': true, '\f': true, '\r': true, ' ': true}
)

// Attributes reads the rest of a tag and calls f, unless that is nil, for each attribute. The name is as written; the value lacks its quotes and
// still has its character references. It returns whole as false if the tag does not end: then it does not count, and the document ends.
func (t *Tokenizer) Attributes(f func(name, value []byte)) (selfClosing, whole bool) {
	d, i := t.doc, t.at
	for {
		for i < len(d) && isSpace[d[i]] {
			i++
		}
		if i >= len(d) {
			t.at = len(d)
			return false, false
		}
		if d[i] == '>' {
			t.at = i + 1
			return false, true
		}
		if d[i] == '/' {
			if i+1 < len(d) && d[i+1] == '>' {
				t.at = i + 2
				return true, true
			}
			i++
			continue
		}
		from := i
		for i++; i < len(d) && !endsAttribute[d[i]]; i++ { // the first octet may be "="
		}
		name := d[from:i]
		for i < len(d) && isSpace[d[i]] {
			i++
		}
		var value []byte
		if i < len(d) && d[i] == '=' {
			for i++; i < len(d) && isSpace[d[i]]; i++ {
			}
			if value, i = attributeValue(d, i); i < 0 {
				t.at = len(d)
				return false, false
			}
		}
		if f != nil {
			f(name, value)
		}
	}
}

// attributeValue reads the value at i and returns where it ends; -1: it does not end.
func attributeValue(d []byte, i int) (value []byte, rest int) {
	if i >= len(d) {
		return nil, -1
	}
	if q := d[i]; q == '"' || q == '\'' {
		n := bytes.IndexByte(d[i+1:], q)
		if n < 0 {
			return nil, -1
		}
		return d[i+1 : i+1+n], i + n + 2
	}
	from := i
	for i < len(d) && !isSpace[d[i]] && d[i] != '>' {
		i++
	}
	return d[from:i], i
}

// commentEnd gives the end of the comment whose text begins at i. "<!-->" and "<!--->" are complete comments.
func commentEnd(d []byte, i int) int {
	rest := d[i:]
	if bytes.HasPrefix(rest, []byte(">")) {
		return i + 1
	}
	if bytes.HasPrefix(rest, []byte("->")) {
		return i + 2
	}
	for {
		n := bytes.Index(d[i:], []byte("--"))
		if n < 0 {
			return len(d)
		}
		for i += n + 2; i < len(d) && d[i] == '-'; i++ {
		}
		switch {
		case bytes.HasPrefix(d[i:], []byte(">")):
			return i + 1
		case bytes.HasPrefix(d[i:], []byte("!>")):
			return i + 2
		}
	}
}

// behind gives the position behind the next mark, or the end of the document.
func behind(d []byte, i int, mark string) int {
	if n := bytes.Index(d[i:], []byte(mark)); n >= 0 {
		return i + n + len(mark)
	}
	return len(d)
}

// RawText reads the text of an element without markup, up to its end tag.
func (t *Tokenizer) RawText(name string) []byte {
	from := t.at
	for i := from; ; {
		n := bytes.IndexByte(t.doc[i:], '<')
		if n < 0 {
			t.at = len(t.doc)
			return t.doc[from:]
		}
		if i += n; t.isTag(i+1, '/', name) {
			t.at = i
			return t.doc[from:i]
		}
		i++
	}
}

// Rest reads the text of an element that has no end tag: <plaintext>.
func (t *Tokenizer) Rest() []byte {
	from := t.at
	t.at = len(t.doc)
	return t.doc[from:]
}

// Script passes over a script, up to its end tag. Between "<!--" and "-->" a script may contain another one with its end tag (section
// 13.2.5.15 and following).
func (t *Tokenizer) Script() {
	const (
		plain   = iota
		escaped // between "<!--" and "-->"
		double  // in a script there
	)
	d, state := t.doc, plain
	for i := t.at; i < len(d); {
		var n int
		if state == plain {
			n = bytes.IndexByte(d[i:], '<')
		} else {
			n = bytes.IndexAny(d[i:], "<-")
		}
		if n < 0 {
			break
		}
		i += n
		switch {
		case d[i] == '-':
			if bytes.HasPrefix(d[i:], []byte("-->")) {
				state = plain
				i += 2
			}
		case t.isTag(i+1, '/', "script"):
			if state != double {
				t.at = i
				return
			}
			state = escaped
		case state == plain && bytes.HasPrefix(d[i:], []byte("<!--")):
			state = escaped
			i++ // its own dashes may end it: "<!-->"
		case state == escaped && t.isTag(i, '<', "script"):
			state = double
		}
		i++
	}
	t.at = len(d)
}

// isTag reports whether a mark and a whole name stand at i.
func (t *Tokenizer) isTag(i int, mark byte, name string) bool {
	end := i + 1 + len(name)
	return end < len(t.doc) && t.doc[i] == mark && endsName[t.doc[end]] && EqualFold(t.doc[i+1:end], name)
}

// EqualFold compares ASCII letters in any case. Name is in lower case.
func EqualFold(b []byte, name string) bool {
	if len(b) != len(name) {
		return false
	}
	for i := range b {
		if lower(b[i]) != name[i] {
			return false
		}
	}
	return true
}

// IsLetter reports whether an octet is an ASCII letter.
func IsLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// IsSpace reports whether an octet is white space to HTML.
func IsSpace(c byte) bool { return isSpace[c] }
