package crawl

import "bytes"

// tokenizer goes through an HTML document as the tokenizer of the HTML standard does (section 13.2.5), as far as that decides which
// elements there are. It changes nothing in the document and keeps no copy of it. Tokens are parts of it.
//
// The standard's tokenizer hangs on the tree that is built of its tokens: text, rawText and cdata are the caller's choice.
type tokenizer struct {
	doc []byte
	at  int // what lies before it has been read
}

// tokenKind says what next has found.
type tokenKind uint8

const (
	endOfFile tokenKind = iota
	textToken
	startTag // its name; attributes is to be called next
	endTag   // its name; the whole tag has been read
)

// next gives the next token. Comments, doctypes and their like are passed over. With cdata, "<![CDATA[" begins a section, which is passed
// over too, as it is in foreign content; elsewhere it begins a comment that ends at the next ">".
func (t *tokenizer) next(cdata bool) (kind tokenKind, token []byte) {
	d, start := t.doc, t.at
	for i := start; ; {
		n := bytes.IndexByte(d[i:], '<')
		if n < 0 || i+n+1 >= len(d) {
			t.at = len(d)
			if start == len(d) {
				return endOfFile, nil
			}
			return textToken, d[start:]
		}
		i += n
		c := d[i+1]
		if c == '/' && i+2 >= len(d) || !isLetter(c) && c != '/' && c != '!' && c != '?' {
			i++ // "<" is text here
			continue
		}
		if i > start {
			t.at = i
			return textToken, d[start:i]
		}
		switch {
		case isLetter(c):
			end := t.tagName(i + 1)
			return startTag, d[i+1 : end]
		case c == '/' && isLetter(d[i+2]):
			end := t.tagName(i + 2)
			if _, whole := t.attributes(nil); !whole {
				return endOfFile, nil
			}
			return endTag, d[i+2 : end]
		case c == '!' && bytes.HasPrefix(d[i+2:], []byte("--")):
			i = commentEnd(d, i+len("<!--"))
		case c == '!' && cdata && bytes.HasPrefix(d[i+2:], []byte("[CDATA[")):
			i = behind(d, i, "]]>")
		default: // a doctype, or a comment that is none: "<!", "<?", "</" before anything else
			i = behind(d, i+2, ">")
		}
		start = i
	}
}

// tagName gives the end of a tag's name that begins at from, and goes there.
func (t *tokenizer) tagName(from int) int {
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

// attributes reads the rest of a tag and gives each attribute to f, unless that is nil: its name as it is written, and its value with its
// character references, without its quotes. A tag that does not end is not whole: it is none, and nothing comes after it.
func (t *tokenizer) attributes(f func(name, value []byte)) (selfClosing, whole bool) {
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
		for i++; i < len(d) && !endsAttribute[d[i]]; i++ { // its first octet may be "="
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

// attributeValue reads the value that begins at i, and gives what comes after it; -1: it does not end.
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

// commentEnd gives what comes after the comment whose text begins at i. "<!-->" and "<!--->" are whole ones.
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

// behind gives what comes after the first mark at or behind i, or the end.
func behind(d []byte, i int, mark string) int {
	if n := bytes.Index(d[i:], []byte(mark)); n >= 0 {
		return i + n + len(mark)
	}
	return len(d)
}

// rawText reads the text of an element that holds no markup, up to its end tag, which comes next.
func (t *tokenizer) rawText(name string) []byte {
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

// script passes over a script up to its end tag, which comes next. Within "<!--" and "-->" a script may hold another with its end tag
// (section 13.2.5.15 and what follows it).
func (t *tokenizer) script() {
	const (
		plain   = iota
		escaped // within "<!--" and "-->"
		double  // within a script in there
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
			i++ // its own dashes may be those that end it: "<!-->"
		case state == escaped && t.isTag(i, '<', "script"):
			state = double
		}
		i++
	}
	t.at = len(d)
}

// isTag tells whether at i a mark and a name stand, and then what ends a name.
func (t *tokenizer) isTag(i int, mark byte, name string) bool {
	end := i + 1 + len(name)
	return end < len(t.doc) && t.doc[i] == mark && endsName[t.doc[end]] && equalFold(t.doc[i+1:end], name)
}

// equalFold compares ASCII letters in any case. Name is in lower case.
func equalFold(b []byte, name string) bool {
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

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
