package crawl

import (
	"bytes"
	"html"
	"strings"
	"unicode/utf8"
)

// reference is the value of an attribute without its character references.
func reference(b []byte) string {
	if bytes.IndexByte(b, '&') < 0 {
		return string(b)
	}
	return unescape(string(b))
}

// unescape decodes character references as they are in attributes (HTML, section 13.2.5.73): a name without its ";" is one only where
// neither "=" nor a letter or digit follows, so that "?a=1&section=2" holds none, though "&sect" is a name. html.UnescapeString is for text.
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
		case strings.HasPrefix(s, "&#"): // what comes after its digits stays
			if strings.Trim(s[2:n], "xX;") == "" {
				one = s[:n]
			}
		case ends && strings.HasSuffix(one, ";") && one != ";", // "&section;" is no name, though it begins with one
			!ends && (utf8.RuneCountInString(one) != 1 || n < len(s) && s[n] == '='):
			one = s[:n]
		}
		b.WriteString(one)
		s = s[n:]
	}
}
