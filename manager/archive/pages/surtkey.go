package pages

import (
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Keys says by which keys a CDXJ index sorts. Readers look for a URL by the key that they make of it, and their families differ.
type Keys int

// The families.
const (
	WebrecorderKeys Keys = iota // as the CDXJ specification, wabac and warcio have them: SearchableURL
	SURTKeys                    // as the Internet Archive's surt library has them, which pywb uses: LibrarySURT
)

// ParseKeys reads the name of a family; an empty one is webrecorder's.
func ParseKeys(name string) (Keys, error) {
	switch name {
	case "", "webrecorder":
		return WebrecorderKeys, nil
	case "surt":
		return SURTKeys, nil
	}
	return 0, fmt.Errorf("%.20q names no keys: webrecorder or surt", name)
}

func (k Keys) of(canonical string) string {
	if k == SURTKeys {
		return LibrarySURT(canonical)
	}
	return SearchableURL(canonical)
}

// time writes when a capture was made. Webrecorder's readers, whose specification allows milliseconds, compare it with the times in WARC files; pywb reads 14 digits.
func (k Keys) time(at time.Time) string {
	seconds := at.Format("20060102150405")
	if k == SURTKeys {
		return seconds
	}
	return seconds + fmt.Sprintf("%03d", at.Nanosecond()/int(time.Millisecond))
}

// LibrarySURT is the key that the Internet Archive's surt library makes of a canonical URL. Unlike SearchableURL it decodes what is percent-encoded, as often as
// that changes anything, and leaves out repeated slashes, a slash at the end, and parts that name a session.
func LibrarySURT(canonical string) string {
	_, rest, _ := strings.Cut(canonical, "://")
	host, path := rest, ""
	if n := strings.IndexAny(rest, "/?"); n >= 0 {
		host, path = rest[:n], rest[n:]
	}
	path, query, _ := strings.Cut(path, "?")
	port := ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], host[i:]
	}
	host = strings.Trim(withoutWWW(strings.ToLower(host)), "[]")
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	key := strings.Join(labels, ",") + port + ")" + libraryPath(path)
	if query = libraryQuery(query); query != "" {
		key += "?" + query
	}
	return key
}

func libraryPath(path string) string {
	var kept []string
	parts := strings.Split(string(unescaped(path)), "/")
	for n, part := range parts {
		switch {
		case n == 0, part == ".":
		case part == ".." && len(kept) > 0:
			kept = kept[:len(kept)-1]
		default:
			kept = append(kept, part)
		}
	}
	if last := len(kept) - 1; last > 0 { // a slash at the end stays here
		kept = append(slices.DeleteFunc(kept[:last:last], func(s string) bool { return s == "" }), kept[last])
	}
	path = strings.ToLower(escaped("/" + strings.Join(kept, "/")))
	for _, session := range pathSessions {
		path = session.ReplaceAllString(path, "$1$2")
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	return path
}

func libraryQuery(query string) string {
	query = escaped(string(unescaped(query)))
	for _, session := range querySessions {
		query = session.ReplaceAllString(query, "$1$2")
	}
	query = strings.ToLower(query)
	if len(query) < 2 {
		return query
	}
	parts := strings.Split(query, "&")
	slices.SortFunc(parts, func(a, b string) int { // by name, then by value; a name alone goes before one with a value
		aName, aValue, aHas := strings.Cut(a, "=")
		bName, bValue, bHas := strings.Cut(b, "=")
		switch {
		case aName != bName:
			return strings.Compare(aName, bName)
		case aHas != bHas && bHas:
			return -1
		case aHas != bHas:
			return 1
		}
		return strings.Compare(aValue, bValue)
	})
	return strings.Join(parts, "&")
}

// What names a session, in paths of ASP.NET and in queries.
var (
	pathSessions = []*regexp.Regexp{
		regexp.MustCompile(`(?i)^(.*/)\((?:[a-z]\([0-9a-z]{24}\))+\)/([^?]+\.aspx.*)$`),
		regexp.MustCompile(`(?i)^(.*/)\([0-9a-z]{24}\)/([^?]+\.aspx.*)$`),
	}
	querySessions = []*regexp.Regexp{
		regexp.MustCompile(`(?i)^(.*)jsessionid=[0-9a-z]{32}(?:&(.*))?$`),
		regexp.MustCompile(`(?i)^(.*)phpsessid=[0-9a-z]{32}(?:&(.*))?$`),
		regexp.MustCompile(`(?i)^(.*)sid=[0-9a-z]{32}(?:&(.*))?$`),
		regexp.MustCompile(`(?i)^(.*)aspsessionid[a-z]{8}=[a-z]{24}(?:&(.*))?$`),
		regexp.MustCompile(`(?i)^(.*)cfid=[^&]+&cftoken=[^&]+(?:&(.*))?$`),
	}
)

// unescaped decodes percent-encodings until none is left. Each round makes the text shorter.
func unescaped(s string) []byte {
	b := []byte(s)
	for {
		out := b[:0:0]
		for i := 0; i < len(b); i++ {
			if b[i] == '%' && i+2 < len(b) {
				if c, err := url.PathUnescape(string(b[i : i+3])); err == nil {
					out = append(out, c...)
					i += 2
					continue
				}
			}
			out = append(out, b[i])
		}
		if bytes.Equal(out, b) {
			return b
		}
		b = out
	}
}

// escaped encodes what is no printable ASCII, and "%" and "#".
func escaped(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f && c != '%' && c != '#' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
