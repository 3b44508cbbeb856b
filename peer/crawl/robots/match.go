package robots

import "strings"

// rule is one Allow or Disallow line.
type rule struct {
	pattern  string   // normal form
	length   int      // of the pattern, which decides; a typed octet that it encodes counts as one
	parts    []string // pattern cut at "*"
	anchored bool     // ended with "$"
	allow    bool
}

func compile(value string, allow bool) rule {
	anchored := strings.HasSuffix(value, "$")
	parts := strings.Split(strings.TrimSuffix(value, "$"), "*")
	typed := 0
	for i := range parts {
		typed += count(parts[i])
		parts[i] = normal(parts[i])
	}
	pattern := strings.Join(parts, "*")
	if anchored {
		pattern += "$"
	}
	return rule{pattern, len(pattern) - typed*len("7B"), parts, anchored, allow}
}

// match follows the parts from left to right. The leftmost place of each part is as good as any later one, but for the last part of
// an anchored rule, which must end the path.
func (r *rule) match(path string) bool {
	if !strings.HasPrefix(path, r.parts[0]) {
		return false
	}
	path = path[len(r.parts[0]):]
	if len(r.parts) == 1 {
		return !r.anchored || path == ""
	}
	last := len(r.parts) - 1
	for i := 1; i < last; i++ {
		j := strings.Index(path, r.parts[i])
		if j < 0 {
			return false
		}
		path = path[j+len(r.parts[i]):]
	}
	if r.anchored {
		return strings.HasSuffix(path, r.parts[last])
	}
	return strings.Contains(path, r.parts[last])
}

// normal brings octets to the form in which they are compared (RFC 9309, section 2.2.2): those outside ASCII, and "*" and "$" where they
// stand for themselves, percent-encoded; unreserved ones decoded; hexadecimal digits in upper case. Those that a URL cannot have are percent-encoded
// too, and "'", which parsers of URLs encode in queries: rules are written as people type them, and URLs come as parsers make them.
func normal(s string) string {
	i := 0
	for i < len(s) && plain(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	b := make([]byte, i, len(s)+16)
	copy(b, s)
	for ; i < len(s); i++ {
		c := s[i]
		if c == '%' && i+2 < len(s) && unhex(s[i+1]) < 16 && unhex(s[i+2]) < 16 {
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
			if unreserved(c) {
				b = append(b, c)
			} else {
				b = escape(b, c)
			}
			continue
		}
		if plain(c) || c == '%' && !alone(s[i+1:]) {
			b = append(b, c)
		} else {
			b = escape(b, c)
		}
	}
	return string(b)
}

func escape(b []byte, c byte) []byte {
	const hex = "0123456789ABCDEF"
	return append(b, '%', hex[c>>4], hex[c&15])
}

// plain octets stay as they are.
func plain(c byte) bool {
	return c > ' ' && c < 0x7f && c != '%' && c != '*' && c != '$' && !isTyped(c)
}

// isTyped reports whether people type an octet and parsers of URLs encode it, or may.
func isTyped(c byte) bool {
	switch c {
	case '"', '\'', '<', '>', '\\', '^', '`', '{', '|', '}':
		return true
	}
	return false
}

// alone reports whether a "%" stands for itself, by what comes after it. At the end of a rule's part it may be the beginning of an encoded octet.
func alone(next string) bool {
	return len(next) > 0 && unhex(next[0]) > 15 || len(next) > 1 && unhex(next[1]) > 15
}

// count counts the octets of a part that are typed and that normal encodes.
func count(part string) (n int) {
	for i := range len(part) {
		if isTyped(part[i]) || part[i] == '%' && alone(part[i+1:]) {
			n++
		}
	}
	return n
}

func unreserved(c byte) bool {
	return isLetter(c) || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}
