package crawl

import (
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
)

// query encodes the queries of references as browsers do for a page that is not in UTF-8: in the page's own encoding, with what that
// cannot say as a number in "&#...;" (URL Standard, "percent-encode after encoding"). Nil does nothing.
type query struct {
	enc  encoding.Encoding
	name string
}

func (q *query) encode(ref string) string {
	from := strings.IndexAny(ref, "?#")
	if q == nil || from < 0 || ref[from] != '?' || isASCII(ref[from:]) {
		return ref
	}
	end := len(ref)
	if i := strings.IndexByte(ref, '#'); i >= 0 {
		end = i
	}
	var b strings.Builder
	b.WriteString(ref[:from])
	run := "" // characters to be encoded at once: an encoding may have states
	for _, r := range strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(ref[from:end]) {
		r = q.asEncoded(r)
		said := r < utf8.RuneSelf || q.says(r)
		if said && r >= utf8.RuneSelf {
			run += string(r)
			continue
		}
		q.write(&b, run)
		run = ""
		if said {
			b.WriteRune(r)
		} else {
			b.WriteString("%26%23" + strconv.Itoa(int(r)) + "%3B")
		}
	}
	q.write(&b, run)
	b.WriteString(ref[end:])
	return b.String()
}

// asEncoded gives the character as which the encoders of the Encoding Standard write one that the library's do not.
func (q *query) asEncoded(r rune) rune {
	switch q.name {
	case "euc-jp", "shift_jis":
		switch r {
		case '\u00A5': // yen
			return '\\'
		case '\u203E': // overline
			return '~'
		}
	case "iso-2022-jp":
		if r >= '\uFF61' && r <= '\uFF9F' { // half-width katakana
			return katakana[r-'\uFF61']
		}
	default:
		return r
	}
	if r == '\u2212' { // minus
		return '\uFF0D'
	}
	return r
}

// katakana are those that are written for half-width ones (Encoding Standard, "index ISO-2022-JP katakana").
var katakana = []rune("。「」、・ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワン゛゜")

// says reports whether the encoding has a character.
func (q *query) says(r rune) bool {
	if single, ok := q.enc.(*charmap.Charmap); ok {
		_, has := single.EncodeRune(r)
		return has || isControl(single, r)
	}
	out, err := q.enc.NewEncoder().String(string(r))
	switch {
	case err != nil, q.name == "euc-jp" && out[0] == 0x8f: // JIS X 0212 is only decoded
		return false
	case q.name == "big5" && out[0] >= utf8.RuneSelf && out[0] < 0xa1: // so are the extensions of Hong Kong
		return false
	}
	return true
}

// isControl reports whether a character is a control character that markup.Decode has made of an octet.
func isControl(single *charmap.Charmap, r rune) bool {
	return r >= 0x80 && r < 0xa0 && single.DecodeByte(byte(r)) == utf8.RuneError
}

// write encodes characters that the encoding has.
func (q *query) write(b *strings.Builder, run string) {
	if run == "" {
		return
	}
	var out []byte
	if single, ok := q.enc.(*charmap.Charmap); ok {
		for _, r := range run {
			c, _ := single.EncodeRune(r)
			if isControl(single, r) {
				c = byte(r)
			}
			out = append(out, c)
		}
	} else if out, _ = q.enc.NewEncoder().Bytes([]byte(run)); q.name == "shift_jis" {
		preferIBM(out)
	}
	for _, c := range out {
		if c < utf8.RuneSelf && c != '#' { // the URL's parser does the others
			b.WriteByte(c)
		} else {
			const hex = "0123456789ABCDEF"
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
}

// preferIBM has characters that Shift_JIS has twice be those of IBM's rows, and not of NEC's (Encoding Standard, "index Shift_JIS pointer").
func preferIBM(out []byte) {
	for i := 0; i+1 < len(out); i++ {
		switch c := out[i]; {
		case c < 0x80 || c >= 0xa1 && c <= 0xdf:
			continue // a character of one octet
		case c == 0xed || c == 0xee:
			if pair, ok := ibmRows()[[2]byte{c, out[i+1]}]; ok {
				out[i], out[i+1] = pair[0], pair[1]
			}
		}
		i++
	}
}

// ibmRows leads from NEC's pairs of octets to those of IBM for the same characters.
var ibmRows = sync.OnceValue(func() map[[2]byte][2]byte {
	pairs := func(first, last byte, take func(r rune, pair [2]byte)) {
		for lead := int(first); lead <= int(last); lead++ {
			for trail := 0x40; trail <= 0xfc; trail++ {
				pair := [2]byte{byte(lead), byte(trail)}
				if s, err := japanese.ShiftJIS.NewDecoder().Bytes(pair[:]); err == nil {
					if r, n := utf8.DecodeRune(s); n == len(s) && r != utf8.RuneError {
						take(r, pair)
					}
				}
			}
		}
	}
	ibm, out := map[rune][2]byte{}, map[[2]byte][2]byte{}
	pairs(0xfa, 0xfc, func(r rune, pair [2]byte) { ibm[r] = pair })
	pairs(0xed, 0xee, func(r rune, pair [2]byte) {
		if to, ok := ibm[r]; ok {
			out[pair] = to
		}
	})
	return out
})

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
