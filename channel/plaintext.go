package channel

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// PlainText makes a member's words safe to show: control characters, line ends, and characters that turn or hide text become spaces, runs of spaces
// become one, and what is longer than most bytes is cut.
func PlainText(s string, most int) string {
	var b strings.Builder
	space := false
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
		case unicode.IsSpace(r) || !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Cf, r):
			space = b.Len() > 0
			continue
		}
		n := utf8.RuneLen(r)
		if space {
			n++
		}
		if b.Len()+n > most {
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}
