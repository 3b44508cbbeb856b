package markup

import (
	"regexp"
	"strings"
)

// MediaType gives the type in a Content-Type, in lower case and without parameters; "": no valid type. As in browsers, the last of several types
// counts and "*/*" says nothing (Fetch, "extract a MIME type"); nor do the two types that mean unknown (MIME Sniffing, section 7). If a type is
// invalid its first word counts where it is clear enough: "text/html charset=utf-8", "html".
func MediaType(contentType string) string {
	last := ""
	for part := range typesIn(strings.ToLower(contentType)) {
		essence, _, _ := strings.Cut(part, ";")
		if word := strings.Fields(essence); len(word) > 0 && word[0] != "*/*" && word[0] != "unknown/unknown" && word[0] != "application/unknown" {
			if t := typeOf(word[0]); t != "" {
				last = t
			}
		}
	}
	return last
}

// IsHTML reports whether a media type is HTML's or XHTML's.
func IsHTML(mediaType string) bool { return mediaType == "text/html" || IsXHTML(mediaType) }

// IsXHTML reports whether a media type is XHTML's.
func IsXHTML(mediaType string) bool {
	return mediaType == "application/xhtml+xml" || mediaType == "application/vnd.wap.xhtml+xml"
}

// typesIn cuts a list of types at its commas that are not in quotes. A quote that is not closed goes to the end.
func typesIn(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		from, inside := 0, false
		for i := 0; i < len(list); i++ {
			switch c := list[i]; {
			case c == '"':
				inside = !inside
			case c == '\\' && inside:
				i++
			case c == ',' && !inside:
				if !yield(list[from:i]) {
					return
				}
				from = i + 1
			}
		}
		yield(list[from:])
	}
}

// typeOf gives the type that a word stands for; "": none.
func typeOf(word string) string {
	switch word {
	case "html", "htm", "xhtml":
		return "text/html"
	case "xml":
		return "text/xml"
	}
	major, minor, _ := strings.Cut(word, "/")
	if !isTypeToken(major) || !isTypeToken(minor) {
		return ""
	}
	return word
}

// isTypeToken reports whether a word is a token of HTTP (RFC 9110, section 5.6.2), in lower case.
func isTypeToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// HeaderLabel gives the charset of the type that counts in a list of types: the last one. It has the charset of the one before it if it is the
// same type and names none (Fetch, "extract a MIME type").
func HeaderLabel(contentType string) (label string) {
	last := ""
	for part := range typesIn(contentType) {
		t, said := MediaType(part), labelIn(withoutQuoted(part))
		if t == "" && last != "" && (said == "" || strings.HasPrefix(strings.TrimSpace(part), "*/*")) {
			continue
		}
		if t != last || said != "" {
			label = said
		}
		last = t
	}
	return label
}

// quoted is a parameter whose value is a string in quotes.
var quoted = regexp.MustCompile(`(?s)([^;,="\s]+)\s*=\s*"(?:[^"\\]|\\.)*"`)

// withoutQuoted empties the strings in quotes of a Content-Type, in which anything may stand, but the charset.
func withoutQuoted(contentType string) string {
	if !strings.Contains(contentType, `"`) {
		return contentType
	}
	return quoted.ReplaceAllStringFunc(contentType, func(parameter string) string {
		name, _, _ := strings.Cut(parameter, "=")
		if name = strings.TrimSpace(name); strings.EqualFold(name, "charset") {
			return parameter
		}
		return name + "="
	})
}

// labelIn gives the charset in a Content-Type header, even if it is badly written.
func labelIn(contentType string) string {
	for rest := contentType; ; {
		i := IndexFold([]byte(rest), "charset")
		if i < 0 {
			return ""
		}
		inName := i > 0 && (IsLetter(rest[i-1]) || rest[i-1] == '-' || rest[i-1] == '_') // "x-charset"
		rest = strings.TrimLeft(rest[i+len("charset"):], " \t\n\f\r")
		if inName || !strings.HasPrefix(rest, "=") {
			continue
		}
		value := strings.TrimLeft(rest[1:], " \t\n\f\r")
		if value != "" && value[0] == '"' {
			return unquoted(value[1:])
		}
		if value != "" && value[0] == '\'' { // which is no quote, but is met as one
			label, _, _ := strings.Cut(value[1:], "'")
			return label
		}
		if end := strings.IndexAny(value, "; ,\t\n\f\r\"'"); end >= 0 {
			value = value[:end]
		}
		if value == "" { // a parameter without a value is none
			continue
		}
		return value
	}
}

// unquoted reads a string in quotes from behind the first one (Fetch, "collect an HTTP quoted string").
func unquoted(s string) string {
	var b strings.Builder
	for i := 0; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
