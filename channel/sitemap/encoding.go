package sitemap

import (
	"bytes"
	"mime"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
)

// utf8Of gives a text in UTF-8. What says more counts first: a byte order mark, the header, the XML declaration. A text that names no encoding, or
// one that is unknown, is taken for UTF-8.
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
		label = DeclaredEncoding(body)
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

func wide(body []byte, order unicode.Endianness) []byte {
	out, err := unicode.UTF16(order, unicode.IgnoreBOM).NewDecoder().Bytes(body)
	if err != nil {
		return body
	}
	return bytes.TrimPrefix(out, []byte("\xef\xbb\xbf"))
}

// DeclaredEncoding gives the label in the XML declaration with which a text begins; "": there is none.
func DeclaredEncoding(text []byte) string {
	if !bytes.HasPrefix(text, []byte("<?xml")) {
		return ""
	}
	head := text[:min(len(text), maxDeclaration)]
	end := bytes.IndexByte(head, '>')
	if end < 0 {
		return ""
	}
	s := scanner{attributes: head[len("<?xml"):end]}
	label, _ := s.attribute("encoding")
	return label
}

const maxDeclaration = 1024 // octets of an XML declaration
