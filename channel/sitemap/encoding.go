package sitemap

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"

	"shoal/channel/markup"
)

// utf8Of decodes a text to UTF-8. The encoding comes from a byte order mark, the header or the XML declaration, in that order. A text that names no
// encoding, or an unknown one, is UTF-8; if it names none and is not valid UTF-8, it is windows-1252.
func utf8Of(body []byte, contentType string) []byte {
	switch {
	case bytes.HasPrefix(body, []byte("\xef\xbb\xbf")):
		return body[3:]
	case bytes.HasPrefix(body, []byte("\xff\xfe")), bytes.HasPrefix(body, []byte("<\x00")):
		return wide(body, unicode.LittleEndian)
	case bytes.HasPrefix(body, []byte("\xfe\xff")), bytes.HasPrefix(body, []byte("\x00<")):
		return wide(body, unicode.BigEndian)
	}
	label := ""
	if _, parameters, err := mime.ParseMediaType(contentType); err == nil {
		label = parameters["charset"]
	}
	if label == "" {
		label = markup.DeclaredLabel(bytes.TrimLeft(body, " \t\r\n"))
	}
	if label == "" && !isUTF8(body) {
		label = "windows-1252"
	}
	enc, name := charset.Lookup(label)
	if enc == nil || name == "utf-8" || strings.HasPrefix(name, "utf-16") || name == "replacement" { // UTF-16 would have shown
		return body
	}
	out, err := enc.NewDecoder().Bytes(body)
	if err != nil {
		return body
	}
	return out
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
