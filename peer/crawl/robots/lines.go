package robots

import (
	"bytes"
	"strings"
)

// cut takes off what lies beyond the limit, with a line that goes across it: half a rule is another rule.
func cut(body []byte) []byte {
	if len(body) <= MaxBytes {
		return body
	}
	if c := body[MaxBytes]; c == '\r' || c == '\n' {
		return body[:MaxBytes]
	}
	return body[:bytes.LastIndexAny(body[:MaxBytes], "\r\n")+1]
}

// lines cuts a file at CR, LF or both. A byte order mark before it, or the beginning of one, is no part of it.
func lines(body []byte) func(yield func([]byte) bool) {
	for _, c := range []byte("\xef\xbb\xbf") {
		if len(body) == 0 || body[0] != c {
			break
		}
		body = body[1:]
	}
	return func(yield func([]byte) bool) {
		for len(body) > 0 {
			i := bytes.IndexAny(body, "\r\n")
			if i < 0 {
				yield(body)
				return
			}
			if !yield(body[:i]) {
				return
			}
			body = body[i+1:]
		}
	}
}

// split cuts a line into key and value, without comment and space.
func split(line []byte) (key, value string, ok bool) {
	line, _, _ = bytes.Cut(line, []byte("#"))
	k, v, ok := bytes.Cut(line, []byte(":"))
	if rest := forgotten(k); ok && rest > 0 { // the colon is the URL's
		k, v = k[:rest], line[rest:]
	} else if !ok { // a forgotten colon: two words and no more
		words := bytes.Fields(line)
		if len(words) != 2 {
			return "", "", false
		}
		k, v = words[0], words[1]
	}
	key = strings.ToLower(string(bytes.TrimSpace(k)))
	switch key {
	case "useragent", "user agent":
		key = "user-agent"
	case "dissallow", "disalow", "diasllow", "disallaw":
		key = "disallow"
	case "site-map", "sitemaps":
		key = "sitemap"
	case "crawldelay", "crawl delay", "crawl_delay":
		key = "crawl-delay"
	}
	return key, string(bytes.Trim(v, " \t\f\v\x00")), true
}

// forgotten tells where the key ends in what stands before a colon, if that is a sitemap's scheme: "Sitemap https".
func forgotten(k []byte) int {
	words := bytes.Fields(k)
	if len(words) != 2 || !bytes.EqualFold(words[0], []byte("sitemap")) || !bytes.EqualFold(bytes.TrimRight(words[1], "sS"), []byte("http")) {
		return 0
	}
	return bytes.LastIndexAny(k, " \t") + 1
}

// product is the product token of a User-agent line: letters, "_" and "-" (RFC 9309, section 2.2.1), or "*".
func product(value string) string {
	if value == "*" || strings.HasPrefix(value, "* ") || strings.HasPrefix(value, "*\t") {
		return "*"
	}
	i := 0
	for i < len(value) && (isLetter(value[i]) || value[i] == '_' || value[i] == '-') {
		i++
	}
	return value[:i]
}
