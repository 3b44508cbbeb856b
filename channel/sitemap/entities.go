package sitemap

import (
	"regexp"
	"strconv"
	"strings"
)

// entities are the names that a document declares for texts, as `<!ENTITY shop "https://example.com/shop">` does. The zero value declares none.
type entities struct {
	texts   map[string]string
	longest int // of the names
	room    int // octets that texts may still add: names that are used over and over must not make a document much longer than it is
}

// Bounds of declarations. What is longer is no part of a URL.
const (
	maxEntities     = 64
	maxEntityName   = 64
	maxEntityText   = 2 << 10
	maxDeclarations = 16 << 10 // octets of a document that are looked through for them
)

var entity = regexp.MustCompile(`<!ENTITY\s+([^\s%&;"'<>]+)\s+(?:"([^"<]*)"|'([^'<]*)')\s*>`)

// declared finds the entities that are declared at a document's beginning, before its root. Of several declarations of a name the first one counts.
// A text may have the names before it.
func declared(head []byte, room int) (e entities) {
	e = entities{room: room}
	for _, m := range entity.FindAllSubmatch(head[:min(len(head), maxDeclarations)], maxEntities) {
		name, text := string(m[1]), e.unescape(string(m[2])+string(m[3]))
		if _, again := e.texts[name]; again || len(name) > maxEntityName || len(text) > maxEntityText {
			continue
		}
		if e.texts == nil {
			e.texts = map[string]string{}
		}
		e.texts[name], e.longest = text, max(e.longest, len(name))
	}
	return e
}

// unescape decodes references: XML's five names, numbers, and the names that the document declares. Others stay, with a bare "&": "?a=1&copy=2" has none.
func (e *entities) unescape(s string) string {
	if strings.IndexByte(s, '&') < 0 {
		return s
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '&')
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i:]
		end := strings.IndexByte(s[:min(len(s), max(maxReference, e.longest+len("&;")))], ';')
		if end < 0 {
			b.WriteByte('&')
			s = s[1:]
			continue
		}
		if r, ok := reference(s[1:end]); ok {
			b.WriteRune(r)
			s = s[end+1:]
		} else if text, ok := e.texts[s[1:end]]; ok && len(text) <= e.room {
			b.WriteString(text)
			e.room -= len(text)
			s = s[end+1:]
		} else {
			b.WriteByte('&')
			s = s[1:]
		}
	}
}

const maxReference = 12 // octets of a reference

func reference(name string) (rune, bool) {
	switch name {
	case "amp":
		return '&', true
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	}
	digits, ok := strings.CutPrefix(name, "#")
	if !ok {
		return 0, false
	}
	base := 10
	if hex := strings.TrimLeft(digits, "xX"); len(hex) == len(digits)-1 {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 21)
	if err != nil || n == 0 || n > 0x10ffff {
		return 0, false
	}
	return rune(n), true
}
