package markup

import (
	"bytes"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Value gives the value of an attribute: what is no character is U+FFFD, and character references are decoded.
func Value(b []byte) string {
	if bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b) {
		b = scalars(b)
	}
	if bytes.IndexByte(b, '&') < 0 {
		return string(b)
	}
	return unescape(string(b), false)
}

// Text gives what a text says: character references are decoded.
func Text(s string) string { return unescape(s, true) }

// ValueBytes does the same without a copy where nothing is to be done.
func ValueBytes(b []byte) []byte {
	if bytes.IndexByte(b, '&') < 0 && bytes.IndexByte(b, 0) < 0 && utf8.Valid(b) {
		return b
	}
	return []byte(Value(b))
}

// scalars puts U+FFFD for each NUL (HTML, section 13.2.5) and for what is not UTF-8: one for each longest beginning of a character (Encoding
// Standard, "UTF-8 decoder").
func scalars(b []byte) []byte {
	out := make([]byte, 0, len(b)+len("\uFFFD"))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			for n < len(b) && !utf8.FullRune(b[:n+1]) {
				n++
			}
		} else if r == 0 {
			r = utf8.RuneError
		}
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return out
}

// unescape decodes character references (HTML, section 13.2.5.73). In attributes a name without ";" counts only if no "=", letter or digit follows:
// "?a=1&section=2" has no reference, though "&sect" is a name. In a text it counts, and html.UnescapeString has that rule.
func unescape(s string, text bool) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '&')
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i:]
		if strings.HasPrefix(s, "&#") {
			one, n := numeric(s)
			b.WriteString(one)
			s = s[n:]
			continue
		}
		n := 1
		for n < len(s) && (lower(s[n]) >= 'a' && lower(s[n]) <= 'z' || s[n] >= '0' && s[n] <= '9') {
			n++
		}
		ends := n < len(s) && s[n] == ';'
		if ends {
			n++
		}
		one := html.UnescapeString(s[:n])
		if text {
			b.WriteString(one)
			s = s[n:]
			continue
		}
		if ends && strings.HasSuffix(one, ";") && one != ";" || // "&section;" is not a name, though it begins with one
			!ends && (utf8.RuneCountInString(one) != 1 || n < len(s) && s[n] == '=') {
			one = s[:n]
		}
		b.WriteString(one)
		s = s[n:]
	}
}

// numeric decodes the number at the beginning of a text, "&#38;" or "&#x26;", and tells how long it is. The ";" may be missing. html.UnescapeString
// leaves numbers of one digit without it, and takes those that are too large for what is left of them in 32 bits.
func numeric(s string) (one string, n int) {
	n, base := len("&#"), 10
	if n < len(s) && lower(s[n]) == 'x' {
		n, base = n+1, 16
	}
	digits, number := n, 0
	for n < len(s) {
		d := strings.IndexByte("0123456789abcdef"[:base], lower(s[n]))
		if d < 0 {
			break
		}
		number = min(number*base+d, utf8.MaxRune+1)
		n++
	}
	if n == digits {
		return s[:n], n
	}
	if n < len(s) && s[n] == ';' {
		n++
	}
	return html.UnescapeString("&#" + strconv.Itoa(number) + ";"), n
}
