// Package robots decides by a host's robots.txt which URLs may be fetched, as RFC 9309 has it: the group of the most specific product
// token, the longest matching rule, Allow on a tie, "*" and "$", comparison after percent-encoding is brought to one form.
//
// temoto/robotstxt reads Crawl-delay and the sitemaps from what clean leaves of a file; groups and verdicts are ours, since its
// wildcards are not anchored and its rules are not to be had. Package robots does not fetch: peer/crawl does.
package robots

import (
	"bytes"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/temoto/robotstxt"
)

// Limits of a file.
const (
	MaxBytes    = 500 << 10        // what lies beyond does not count (RFC 9309, section 2.5); give Parse one more, so that it can tell
	MaxSitemaps = 100              // sitemaps named
	MaxDelay    = 30 * time.Second // a longer Crawl-delay is kept as this
)

// Rules is a parsed robots.txt for one product token. The zero value allows everything. It may be used by several goroutines.
type Rules struct {
	CrawlDelay time.Duration
	Sitemaps   []string // as written, absolute or not
	rules      []rule   // longest pattern first
}

type rule struct {
	pattern  string   // normal form; its length decides
	parts    []string // pattern cut at "*"
	anchored bool     // ended with "$"
	allow    bool
}

// Parse reads a file for a product token, as "Shoal". No input is an error: what is not understood is passed over.
func Parse(body []byte, token string) *Rules {
	body = cut(body)
	token = strings.ToLower(token)
	ours, others := &Rules{}, &Rules{} // of token, of "*"
	var cleaned []byte
	var isOurs, isOthers, sawOurs, inRules bool
	for line := range lines(body) {
		key, value, ok := split(line)
		if !ok {
			continue
		}
		switch key {
		case "user-agent":
			if inRules {
				isOurs, isOthers, inRules = false, false, false
			}
			name := strings.ToLower(product(value))
			isOurs = isOurs || name == token
			isOthers = isOthers || name == "*"
			sawOurs = sawOurs || name == token
			value = name
			if name == "" {
				continue
			}
		case "allow", "disallow":
			inRules = true
			if value == "" {
				continue
			}
			r := compile(value, key == "allow")
			if isOurs {
				ours.rules = append(ours.rules, r)
			}
			if isOthers {
				others.rules = append(others.rules, r)
			}
			value = "/" // its rules are not asked for
		case "crawl-delay":
			if d, err := strconv.ParseFloat(value, 64); err != nil || !(d >= 0 && d < 1e6) {
				continue
			}
		case "sitemap":
		default:
			continue
		}
		cleaned = append(append(append(append(cleaned, key...), ": "...), value...), '\n')
	}
	r := others
	if sawOurs {
		r = ours
	} else {
		token = "*"
	}
	sort.SliceStable(r.rules, func(i, j int) bool {
		a, b := &r.rules[i], &r.rules[j]
		if len(a.pattern) != len(b.pattern) {
			return len(a.pattern) > len(b.pattern)
		}
		return a.allow && !b.allow
	})
	if data, err := robotstxt.FromBytes(cleaned); err == nil {
		r.Sitemaps = data.Sitemaps[:min(len(data.Sitemaps), MaxSitemaps)]
		if g := data.FindGroup(token); g != nil {
			r.CrawlDelay = min(max(g.CrawlDelay, 0), MaxDelay)
		}
	}
	return r
}

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
	if !ok { // a forgotten colon: two words and no more
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
	case "site-map":
		key = "sitemap"
	case "crawldelay":
		key = "crawl-delay"
	}
	return key, string(bytes.Trim(v, " \t\f\v\x00")), true
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

func compile(value string, allow bool) rule {
	anchored := strings.HasSuffix(value, "$")
	parts := strings.Split(strings.TrimSuffix(value, "$"), "*")
	for i := range parts {
		parts[i] = normal(parts[i])
	}
	pattern := strings.Join(parts, "*")
	if anchored {
		pattern += "$"
	}
	return rule{pattern, parts, anchored, allow}
}

// Allowed tells whether a path with its query ("/a?b") may be fetched.
func (r *Rules) Allowed(path string) bool {
	if len(r.rules) == 0 || path == "/robots.txt" {
		return true
	}
	path = normal(path)
	for i := range r.rules {
		if r.rules[i].match(path) {
			return r.rules[i].allow
		}
	}
	return true
}

// Cost is about how many rules with wildcards a verdict takes the time of.
func (r *Rules) Cost() int {
	n := 0
	for i := range r.rules {
		if len(r.rules[i].parts) > 1 {
			n += prefixes
		}
	}
	return (n + len(r.rules)) / prefixes
}

// prefixes are how many comparisons of a path's beginning take the time of one rule with wildcards.
const prefixes = 16

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
// stand for themselves, percent-encoded; unreserved ones decoded; hexadecimal digits in upper case.
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
		if plain(c) || c == '%' {
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
func plain(c byte) bool { return c > ' ' && c < 0x7f && c != '%' && c != '*' && c != '$' }

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
