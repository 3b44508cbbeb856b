package crawl

import (
	"bytes"
	"html"
	"strings"
	"unicode/utf8"
)

// reference decodes the character references in the value of an attribute.
func reference(b []byte) string {
	if bytes.IndexByte(b, '&') < 0 {
		return string(b)
	}
	return unescape(string(b))
}

// unescape decodes character references as in attributes (HTML, section 13.2.5.73). There a name without ";" counts only if no "=", letter or
// digit follows: "?a=1&section=2" has no reference, though "&sect" is a name. html.UnescapeString has the rule for text.
func unescape(s string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '&')
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i:]
		n := 1
		if n < len(s) && s[n] == '#' {
			n++
		}
		for n < len(s) && (lower(s[n]) >= 'a' && lower(s[n]) <= 'z' || s[n] >= '0' && s[n] <= '9') {
			n++
		}
		ends := n < len(s) && s[n] == ';'
		if ends {
			n++
		}
		one := html.UnescapeString(s[:n])
		switch {
		case strings.HasPrefix(s, "&#"): // html.UnescapeString keeps what follows the digits
			if strings.Trim(s[2:n], "xX;") == "" {
				one = s[:n]
			}
		case ends && strings.HasSuffix(one, ";") && one != ";", // "&section;" is not a name, though it begins with one
			!ends && (utf8.RuneCountInString(one) != 1 || n < len(s) && s[n] == '='):
			one = s[:n]
		}
		b.WriteString(one)
		s = s[n:]
	}
}
