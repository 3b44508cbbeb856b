package sitemap

import (
	"bytes"
	"strings"
	"unicode"
)

// scanner goes through XML as it is met, tag by tag. Names and attributes are parts of the text.
type scanner struct {
	text     []byte
	at       int
	entities entities // that the document declares

	// Of the tag that next found.
	prefix, local []byte
	attributes    []byte
	empty         bool // "<a/>"
	from          int

	lines, counted int // line breaks before counted
	unquoted       [2]bool
}

type found int

const (
	ended  found = iota
	opened       // a start tag
	closed       // an end tag
	other        // a comment, an instruction, a declaration, a CDATA section
)

// next finds the next tag. What is no tag it passes over: text, and comments with all that is in them.
func (s *scanner) next() found {
	n := bytes.IndexByte(s.text[s.at:], '<')
	if n < 0 {
		s.at = len(s.text)
		return ended
	}
	s.from = s.at + n
	rest := s.text[s.from:]
	switch {
	case bytes.HasPrefix(rest, []byte("<!--")):
		s.skip(len("<!--"), "-->")
		return other
	case bytes.HasPrefix(rest, []byte(cdataBegins)):
		s.skip(len(cdataBegins), cdataEnds)
		return other
	case bytes.HasPrefix(rest, []byte("<?")):
		s.skip(2, "?>")
		return other
	case bytes.HasPrefix(rest, []byte("<!")):
		s.skip(2, ">")
		return other
	}
	return s.tag()
}

const (
	cdataBegins = "<![CDATA["
	cdataEnds   = "]]>"
)

// skip goes behind the next mark after what begins at from, or to the end.
func (s *scanner) skip(head int, mark string) {
	s.at = s.from + head
	if n := bytes.Index(s.text[s.at:], []byte(mark)); n >= 0 {
		s.at += n + len(mark)
	} else {
		s.at = len(s.text)
	}
}

// tag reads a tag. There may be space before its name.
func (s *scanner) tag() found {
	kind, i := opened, s.from+1
	i = s.space(i)
	if i < len(s.text) && s.text[i] == '/' {
		kind = closed
		i = s.space(i + 1)
	}
	name := i
	for i < len(s.text) && !endsName[s.text[i]] {
		i++
	}
	if s.at = i; i == name || i == len(s.text) { // "<" that begins no tag
		return other
	}
	s.prefix, s.local = nil, s.text[name:i]
	if n := bytes.IndexByte(s.local, ':'); n >= 0 {
		s.prefix, s.local = s.local[:n], s.local[n+1:]
	}
	end := s.tagEnd(i)
	s.attributes, s.at = s.text[i:end], end
	if end < len(s.text) && s.text[end] == '>' {
		s.at++
	}
	s.empty = bytes.HasSuffix(s.attributes, []byte("/"))
	return kind
}

var (
	endsName = [256]bool{' ': true, '\t': true, '\n': true, '\r': true, '\f': true, '>': true, '/': true, '<': true}
	isSpace  = [256]bool{' ': true, '\t': true, '\n': true, '\r': true, '\f': true}
)

func (s *scanner) space(i int) int {
	for i < len(s.text) && isSpace[s.text[i]] {
		i++
	}
	return i
}

// tagEnd gives where a tag ends: at its ">", which may not be in quotes, or before the next tag.
func (s *scanner) tagEnd(i int) int {
	for ; i < len(s.text); i++ {
		switch c := s.text[i]; c {
		case '>', '<':
			return i
		case '"', '\'':
			kind := 0
			if c == '\'' {
				kind = 1
			}
			if s.unquoted[kind] {
				continue
			}
			n := bytes.IndexByte(s.text[i+1:], c)
			if n < 0 {
				s.unquoted[kind] = true // so that no other tag looks for it again
				continue
			}
			i += n + 1
		}
	}
	return len(s.text)
}

// attribute gives an attribute of the tag.
func (s *scanner) attribute(name string) (string, bool) {
	for rest := s.attributes; ; {
		n := bytes.IndexByte(rest, '=')
		if n < 0 {
			return "", false
		}
		fields := bytes.Fields(rest[:n])
		rest = bytes.TrimLeft(rest[n+1:], " \t\r\n\f")
		var value []byte
		if len(rest) > 0 && (rest[0] == '"' || rest[0] == '\'') {
			n = bytes.IndexByte(rest[1:], rest[0])
			if n < 0 {
				return "", false
			}
			value, rest = rest[1:1+n], rest[n+2:]
		} else {
			n = 0
			for n < len(rest) && !isSpace[rest[n]] {
				n++
			}
			value, rest = bytes.TrimSuffix(rest[:n], []byte("/")), rest[n:]
		}
		if len(fields) > 0 && is(fields[len(fields)-1], name) {
			return trim(s.entities.unescape(string(value))), true
		}
	}
}

// content gives the text of the element whose start tag was found: what stands before the next tag, CDATA sections in it and comments out of
// it. It is not whole if the text of the document ends first, or is longer than any URL.
func (s *scanner) content() (text string, whole bool) {
	var b strings.Builder
	for {
		n := bytes.IndexByte(s.text[s.at:], '<')
		if n < 0 {
			s.at = len(s.text)
			return "", false
		}
		if b.Len()+n > maxContent {
			s.at += n
			return "", true
		}
		b.WriteString(s.entities.unescape(string(s.text[s.at : s.at+n])))
		s.at += n
		rest := s.text[s.at:]
		s.from = s.at
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")):
			s.skip(len("<!--"), "-->")
		case bytes.HasPrefix(rest, []byte(cdataBegins)):
			rest = rest[len(cdataBegins):]
			end := bytes.Index(rest, []byte(cdataEnds))
			if end < 0 {
				s.at = len(s.text)
				return "", false
			}
			if b.Len()+end <= maxContent {
				b.Write(rest[:end])
			}
			s.at += len(cdataBegins) + end + len(cdataEnds)
		default:
			if bytes.IndexByte(rest, '>') < 0 { // half a tag
				return "", false
			}
			if b.Len() > maxContent { // through entities
				return "", true
			}
			return trim(b.String()), true
		}
	}
}

// maxContent bounds what an element that is read may hold.
const maxContent = 16 << 10

// trim takes off white space, and what editors and databases leave around a URL that nobody sees: byte order marks and spaces without a width.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '\uFEFF' || r == '\u200B' })
}

// line is where the tag stands that was found last.
func (s *scanner) line() int {
	s.lines += bytes.Count(s.text[s.counted:s.from], []byte("\n"))
	s.counted = s.from
	return s.lines + 1
}
