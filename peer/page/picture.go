package page

import (
	"fmt"
	"html"
	"strconv"
	"time"

	"shoal/peer/words"
)

// Picture draws what a computer has done, to be shared. It tells numbers and a month, and nothing of whom they are of.
func Picture(lang string, pages int64, since time.Time) []byte {
	key := "picture.pages"
	if pages == 1 {
		key = "picture.pages.one"
	}
	month := words.T("picture.since", words.T("month."+strconv.Itoa(int(since.Month()))), since.Year())
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 315" font-family="system-ui, sans-serif" lang="%s">
<rect width="600" height="315" fill="#0d3b4f"/>
<g fill="#5cc3e4"><path transform="translate(40 40) scale(5)" d="M1 8c4-6 9-5 11-1l3-2v6l-3-2c-2 4-7 5-11-1z"/><path opacity=".5" transform="translate(470 215) scale(3.5)" d="M1 8c4-6 9-5 11-1l3-2v6l-3-2c-2 4-7 5-11-1z"/><path opacity=".3" transform="translate(520 180) scale(2.5)" d="M1 8c4-6 9-5 11-1l3-2v6l-3-2c-2 4-7 5-11-1z"/></g>
<text x="140" y="93" font-size="34" fill="#ffffff" font-weight="600">Shoal</text>
<text x="40" y="185" font-size="46" fill="#ffffff" font-weight="600">%s</text>
<text x="40" y="225" font-size="22" fill="#cfe8f2">%s</text>
<text x="40" y="285" font-size="18" fill="#cfe8f2">%s</text>
</svg>
`, lang, html.EscapeString(words.T(key, grouped(pages, lang)).In(lang)), html.EscapeString(month.In(lang)), html.EscapeString(words.T("picture.lent").In(lang)))
}

// grouped writes a number with a mark between each three digits.
func grouped(n int64, lang string) string {
	mark := ","
	if lang == "de" {
		mark = "."
	}
	s := strconv.FormatInt(max(n, 0), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + mark + s[i:]
	}
	return s
}
