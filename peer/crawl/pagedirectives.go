package crawl

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"shoal/channel/markup"
)

// directives are what the author of a page asks of robots, in <meta name="robots">, <meta name="shoal"> or X-Robots-Tag.
type directives struct {
	unstored string // why the content is not to be sent: "noindex", "noarchive" or "expired"; "": it may be sent
	nofollow bool   // its links are not to be followed
}

// and combines the directives of two places.
func (d directives) and(more directives) directives {
	if d.unstored == "" {
		d.unstored = more.unstored
	}
	d.nofollow = d.nofollow || more.nofollow
	return d
}

// withValue names the directives that have a colon and a value.
var withValue = map[string]bool{"unavailable_after": true, "max-snippet": true, "max-image-preview": true, "max-video-preview": true}

// withoutValue names those that have none, also such as the crawl passes over.
var withoutValue = map[string]bool{"all": true, "index": true, "follow": true, "noindex": true, "nofollow": true, "none": true, "noarchive": true, "nostore": true, "nocache": true,
	"nosnippet": true, "notranslate": true, "noimageindex": true, "indexifembedded": true, "noodp": true, "noydir": true, "noai": true, "noimageai": true}

// parseDirectives reads a list of directives and passes over unknown ones.
func parseDirectives(list string, now time.Time) (d directives) {
	if i := markup.IndexFold([]byte(list), "unavailable_after"); i >= 0 { // its date may have commas
		if expired(strings.TrimLeft(list[i+len("unavailable_after"):], ": \t"), now) {
			d.unstored = "expired"
		}
	}
	separates := func(r rune) bool {
		return r < 0x80 && strings.IndexByte(",; \t\n\f\r\"'", byte(r)) >= 0 // some put quotes around all
	}
	for name := range strings.FieldsFuncSeq(strings.ToLower(list), separates) {
		switch name {
		case "noindex", "none":
			d.unstored = "noindex"
			d.nofollow = d.nofollow || name == "none"
		case "noarchive", "nostore":
			if d.unstored == "" {
				d.unstored = "noarchive"
			}
		case "nofollow":
			d.nofollow = true
		}
	}
	return d
}

// expired reports whether the date at the beginning of a text has passed. A text without a date has not expired.
func expired(text string, now time.Time) bool {
	for end := len(text); end > 0; end = strings.LastIndexByte(text[:end], ',') { // more directives may follow the date
		if d, ok := dateOf(strings.Trim(text[:end], " \t\"'")); ok {
			return now.After(d.at)
		}
	}
	return false
}

// headerDirectives reads the X-Robots-Tag fields of a response.
func headerDirectives(h http.Header, product string) directives {
	fields := h.Values("X-Robots-Tag")
	if len(fields) == 0 {
		return directives{}
	}
	return parseRobotsTag(fields, product, time.Now())
}

// parseRobotsTag reads X-Robots-Tag fields: "noindex" is for all robots, "shoal: noindex" for ours, "other: noindex" for another. A name holds
// up to the next name in its field, since a proxy may have joined several fields.
func parseRobotsTag(fields []string, product string, now time.Time) (d directives) {
	for _, f := range fields {
		name, from := "", 0
		for at := 0; ; {
			next := len(f)
			if i := strings.IndexByte(f[at:], ','); i >= 0 {
				next = at + i
			}
			who, _, colon := strings.Cut(f[at:next], ":")
			who = strings.ToLower(strings.Trim(who, " \t\"'"))
			if colon && isRobotName(who) {
				d = d.and(directivesFor(name, f[from:at], product, now))
				name, from = who, at+strings.IndexByte(f[at:], ':')+1
			}
			if next == len(f) {
				break
			}
			at = next + 1
		}
		d = d.and(directivesFor(name, f[from:], product, now))
	}
	return d
}

// directivesFor reads a list if it is addressed to us: to the product, perhaps with a version, or to every robot ("" or "*").
func directivesFor(name, list, product string, now time.Time) directives {
	if i := strings.IndexAny(name, "/ "); i >= 0 && name[:i] == product {
		name = product
	}
	if name != "" && name != product && name != "*" {
		return directives{}
	}
	return parseDirectives(list, now)
}

// isRobotName tells the name of a robot, in lower case, from a time of day, a date or a directive. It may have several words and a version.
func isRobotName(s string) bool {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	letter := s[0] >= 'a' && s[0] <= 'z'
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c == '-' || c == '_' || c == '*' || c >= '0' && c <= '9' || letter && (c == ' ' || c == '/' || c == '.')) {
			return false
		}
	}
	words := strings.Fields(s)
	return !slices.ContainsFunc(words, func(w string) bool { return withValue[w] || withoutValue[w] }) && !endsInHour(words)
}

// endsInHour reports whether words are the beginning of a date, up to the hour: "jun 25 2010 15".
func endsInHour(words []string) bool {
	last := words[len(words)-1]
	return len(words) > 1 && len(last) <= 2 && strings.Trim(last, "0123456789") == "" && slices.ContainsFunc(words, func(w string) bool {
		_, err := time.Parse("Jan", w[:min(len(w), len("Jan"))])
		return err == nil
	})
}
