package sitemap

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"

	"shoal/channel/markup"
)

// utf8Of decodes a text to UTF-8. UTF-16 shows by its mark or its zeros. The encoding of any other text is the first known one of those that the
// header and the XML declaration name. If they name none, the text is UTF-8 if it is valid, else windows-1252.
func utf8Of(body []byte, contentType string) []byte {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return body[3:]
	case bytes.HasPrefix(body, []byte("\xff\xfe")):
		return wide(body, unicode.LittleEndian)
	case bytes.HasPrefix(body, []byte("\xfe\xff")):
		return wide(body, unicode.BigEndian)
	}
	header := markup.HeaderLabel(contentType)
	if order, is := wideOrder(body, header); is {
		return wide(body, order)
	}
	enc, name := known(header)
	if name == "" {
		enc, name = known(markup.DeclaredLabel(bytes.TrimLeft(body, " \t\r\n")))
	}
	if name == "" && !isUTF8(body) {
		enc, name = markup.Lookup("windows-1252")
	}
	if name == "" || name == "utf-8" {
		return body
	}
	out, err := markup.Decode(enc, body)
	if err != nil {
		return body
	}
	return out
}

// known finds the encoding of a label, if a text without zeros may be in it; name "": there is none.
func known(label string) (enc encoding.Encoding, name string) {
	if enc, name = markup.Lookup(label); strings.HasPrefix(name, "utf-16") || name == "replacement" {
		return nil, ""
	}
	return enc, name
}

// Bounds of what shows UTF-16 without a mark.
const (
	widePairs = 4       // characters that a sitemap, a feed or a list begins with: white space, "<urlset", "http://"
	wideHead  = 1 << 10 // octets in which the zeros are counted if the header says UTF-16
	wideShare = 8       // of so many of them one must be zero: the ASCII of URLs and tags
)

// wideOrder tells the order of a text that is UTF-16 without a mark: every second octet of its beginning is zero, or the header says so and zeros
// are in it.
func wideOrder(body []byte, header string) (order unicode.Endianness, is bool) {
	zeros := func(head []byte) (even, odd int) {
		for i, c := range head {
			switch {
			case c != 0:
			case i%2 == 0:
				even++
			default:
				odd++
			}
		}
		return even, odd
	}
	pairs := min(len(body)/2, widePairs)
	switch even, odd := zeros(body[:2*pairs]); {
	case pairs == 0:
		return order, false
	case odd == pairs && even == 0:
		return unicode.LittleEndian, true
	case even == pairs && odd == 0:
		return unicode.BigEndian, true
	}
	if _, name := markup.Lookup(header); !strings.HasPrefix(name, "utf-16") {
		return order, false
	}
	head := body[:min(len(body), wideHead)]
	even, odd := zeros(head)
	if max(even, odd)*wideShare < len(head) {
		return order, false
	}
	if even > odd {
		return unicode.BigEndian, true
	}
	return unicode.LittleEndian, true
}

// isUTF8 tells whether a text is valid UTF-8, but for a character that its end may have cut off.
func isUTF8(text []byte) bool {
	for cut := range utf8.UTFMax {
		if cut <= len(text) && utf8.Valid(text[:len(text)-cut]) {
			return true
		}
	}
	return false
}

func wide(body []byte, order unicode.Endianness) []byte {
	out, err := unicode.UTF16(order, unicode.IgnoreBOM).NewDecoder().Bytes(body)
	if err != nil {
		return body
	}
	return bytes.TrimPrefix(out, []byte("\xef\xbb\xbf"))
}
