package crawl

import (
	"net/http"
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

// parseDirectives reads a list of directives and passes over unknown ones.
func parseDirectives(list string, now time.Time) (d directives) {
	if i := markup.IndexFold([]byte(list), "unavailable_after"); i >= 0 { // its date may have commas
		if expired(strings.TrimLeft(list[i+len("unavailable_after"):], ": \t"), now) {
			d.unstored = "expired"
		}
	}
	separates := func(r rune) bool {
		return r == ',' || r == ';' || r == ' ' || r == '\t' || r == '\n' || r == '\f' || r == '\r'
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
			who = strings.ToLower(strings.TrimSpace(who))
			if colon && who != "" && isRobotName(who) && !withValue[who] {
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

// directivesFor reads a list if it is addressed to us: to the product, or to every robot ("" or "*").
func directivesFor(name, list, product string, now time.Time) directives {
	if name != "" && name != product && name != "*" {
		return directives{}
	}
	return parseDirectives(list, now)
}

// isRobotName tells the name of a robot from a time of day or a date.
func isRobotName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c == '-' || c == '_' || c == '*' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return true
}
