package robots

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
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

// plainText decodes a file in UTF-16, as some editors save it: it begins with a byte order mark, or half of its first letters is NUL.
func plainText(body []byte) []byte {
	if len(body) < 4 {
		return body
	}
	var order binary.ByteOrder
	switch mark := binary.BigEndian.Uint16(body); {
	case mark == 0xfffe || body[0] != 0 && body[1] == 0 && body[2] != 0 && body[3] == 0:
		order = binary.LittleEndian
	case mark == 0xfeff || body[0] == 0 && body[1] != 0 && body[2] == 0 && body[3] != 0:
		order = binary.BigEndian
	default:
		return body
	}
	units := make([]uint16, len(body)/2)
	for i := range units {
		units[i] = order.Uint16(body[2*i:])
	}
	return []byte(string(utf16.Decode(units)))
}

// lines cuts a file at CR, LF or both. A byte order mark before it, or the beginning of one, is no part of it.
func lines(body []byte) func(yield func([]byte) bool) {
	body = plainText(body)
	for _, c := range []byte(mark) {
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

// mark is a byte order mark. One stands before lines within a file too, where files were put together.
const mark = "\xef\xbb\xbf"

// split cuts a line into key and value, without comment and space.
func split(line []byte) (key, value string, ok bool) {
	line, _, _ = bytes.Cut(line, []byte("#"))
	for bytes.HasPrefix(line, []byte(mark)) {
		line = line[len(mark):]
	}
	k, v, ok := bytes.Cut(line, []byte(":"))
	if end := forgotten(line); end > 0 {
		k, v = line[:end], line[end:]
	} else if !ok { // a forgotten colon: two words and no more
		words := bytes.Fields(line)
		if len(words) != 2 {
			return "", "", false
		}
		k, v = words[0], words[1]
	}
	v, _, _ = bytes.Cut(bytes.Trim(bytes.TrimSpace(v), "\x00"), []byte("\x00"))
	return keyOf(k), string(bytes.TrimSpace(v)), true
}

// keys are the beginnings of keys, with the misspellings that are met, and what each is read as. As in Google's parser more may follow:
// "Disallowed", "Sitemap-Index".
var keys = []struct{ begins, key string }{
	{"user-agent", "user-agent"}, {"useragent", "user-agent"}, {"user agent", "user-agent"}, {"allow", "allow"}, {"disallow", "disallow"},
	{"dissallow", "disallow"}, {"dissalow", "disallow"}, {"disalow", "disallow"}, {"diasllow", "disallow"}, {"disallaw", "disallow"},
	{"sitemap", "sitemap"}, {"site-map", "sitemap"},
	{"crawl-delay", "crawl-delay"}, {"crawldelay", "crawl-delay"}, {"crawl delay", "crawl-delay"}, {"crawl_delay", "crawl-delay"},
}

// keyOf gives the key that a text is read as; "": none that is known.
func keyOf(text []byte) string {
	said := strings.ToLower(string(bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\x00"), nil))))
	for _, k := range keys {
		if strings.HasPrefix(said, k.begins) {
			return k.key
		}
	}
	return ""
}

// forgotten tells where the key of a line ends that lacks its colon, though there may be one in the value: "Disallow /a:b", "Sitemap https://h/s",
// "Crawl-delay 10 seconds", "Crawl-delay=10"; 0: it ends at its colon, or the line is none of these.
func forgotten(line []byte) int {
	words := bytes.Fields(line)
	if len(words) == 0 || bytes.IndexByte(words[0], ':') >= 0 {
		return 0
	}
	key := keyOf(words[0])
	end := bytes.Index(line, words[0]) + len(words[0])
	if n := bytes.IndexByte(words[0], '='); key == "crawl-delay" && n >= 0 {
		return end - len(words[0]) + n
	}
	if key == "" || len(words) == 1 || words[1][0] == ':' {
		return 0
	}
	switch {
	case len(words) == 2,
		key == "sitemap" && len(words[1]) >= len("http") && bytes.EqualFold(words[1][:len("http")], []byte("http")),
		key == "crawl-delay" && (words[1][0] == '=' || words[1][0] >= '0' && words[1][0] <= '9'):
		return end
	}
	return 0
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
