package crawl

import (
	"net/http"
	"strings"
	"time"
)

// wish is what the author of a page asks of robots, in <meta name="robots">, <meta name="shoal"> or X-Robots-Tag.
type wish struct {
	unstored string // why its content is not to be sent: "noindex", "noarchive" or "expired"; "": it may be
	nofollow bool   // its links are not to be followed
}

// and is what two wishes ask together.
func (w wish) and(v wish) wish {
	if w.unstored == "" {
		w.unstored = v.unstored
	}
	w.nofollow = w.nofollow || v.nofollow
	return w
}

// withValue are the directives whose name a colon follows.
var withValue = map[string]bool{"unavailable_after": true, "max-snippet": true, "max-image-preview": true, "max-video-preview": true}

// directives reads a list of directives. What is not known is passed over.
func directives(list string, now time.Time) (w wish) {
	if i := indexFold([]byte(list), "unavailable_after"); i >= 0 { // its date may have commas
		if after(strings.TrimLeft(list[i+len("unavailable_after"):], ": \t"), now) {
			w.unstored = "expired"
		}
	}
	for d := range strings.FieldsFuncSeq(strings.ToLower(list), func(r rune) bool { return r == ',' || r == ';' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
		switch d {
		case "noindex", "none":
			w.unstored = "noindex"
			w.nofollow = w.nofollow || d == "none"
		case "noarchive", "nostore":
			if w.unstored == "" {
				w.unstored = "noarchive"
			}
		case "nofollow":
			w.nofollow = true
		}
	}
	return w
}

// dates are the forms in which unavailable_after is met.
var dates = []string{time.RFC1123, time.RFC1123Z, time.RFC850, time.RFC822, time.RFC822Z, time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05",
	time.DateOnly, "02 Jan 2006 15:04:05 MST", "2 Jan 2006 15:04:05 MST", "02-Jan-2006 15:04:05 MST", "2-Jan-2006 15:04:05 MST", "2 Jan 2006", "Jan 2, 2006", "Jan 2 2006"}

// after tells whether a moment, with which text begins, has passed. What is no date has not.
func after(text string, now time.Time) bool {
	for end := len(text); end > 0; end = strings.LastIndexByte(text[:end], ',') { // more directives may follow it
		for _, layout := range dates {
			if t, err := time.Parse(layout, strings.TrimSpace(text[:end])); err == nil {
				return now.After(t)
			}
		}
	}
	return false
}

// robotsTag reads X-Robots-Tag fields: "noindex" is for all, "shoal: noindex" for us, "other: noindex" for somebody else. A name holds up
// to the next one of its field, since what lies between may have joined several fields.
func robotsTag(fields []string, product string, now time.Time) (w wish) {
	for _, f := range fields {
		name, from := "", 0
		for at := 0; ; {
			next := len(f)
			if i := strings.IndexByte(f[at:], ','); i >= 0 {
				next = at + i
			}
			who, _, colon := strings.Cut(f[at:next], ":")
			who = strings.ToLower(strings.TrimSpace(who))
			if colon && who != "" && isToken(who) && !withValue[who] {
				w = w.and(asked(name, f[from:at], product, now))
				name, from = who, at+strings.IndexByte(f[at:], ':')+1
			}
			if next == len(f) {
				break
			}
			at = next + 1
		}
		w = w.and(asked(name, f[from:], product, now))
	}
	return w
}

// asked is what a list asks of us that is addressed to name; "" is everybody.
func asked(name, list, product string, now time.Time) wish {
	if name != "" && name != product && name != "*" {
		return wish{}
	}
	return directives(list, now)
}

// isToken tells the name of a robot from a time of day or a date.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c == '-' || c == '_' || c == '*' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return true
}

// wishOf is what a response's header asks.
func wishOf(h http.Header, product string) wish {
	fields := h.Values("X-Robots-Tag")
	if len(fields) == 0 {
		return wish{}
	}
	return robotsTag(fields, product, time.Now())
}
