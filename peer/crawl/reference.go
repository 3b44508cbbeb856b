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

// refreshTarget is where the content of <meta http-equiv=refresh> leads (HTML, section 4.2.5.3): "5; url=/there", "0;/there", "0 '/there'".
func refreshTarget(s string) string {
	const space = " \t\n\f\r"
	s = strings.TrimLeft(s, space)
	rest := strings.TrimLeft(s, "0123456789.")
	if rest == s {
		return ""
	}
	after := strings.TrimLeft(rest, space)
	if after != "" && (after[0] == ';' || after[0] == ',') {
		after = strings.TrimLeft(after[1:], space)
	} else if after == rest {
		return "" // more than a number
	}
	s = after
	if len(s) > 3 && strings.EqualFold(s[:3], "url") {
		if u, ok := strings.CutPrefix(strings.TrimLeft(s[3:], space), "="); ok {
			s = strings.TrimLeft(u, space)
		}
	}
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		quote := s[:1]
		s, _, _ = strings.Cut(s[1:], quote)
	}
	return strings.TrimRight(s, space)
}
