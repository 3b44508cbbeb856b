package crawl

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

// utf8Of gives a document in UTF-8, and how queries of its links are encoded. What says nothing of its encoding and is valid UTF-8 is
// taken for it.
func utf8Of(body []byte, contentType string) ([]byte, *query) {
	head := body[:min(len(body), 1024)]
	contentType = strings.ToLower(contentType)
	declared := strings.Contains(contentType, "charset=")
	wide := bytes.HasPrefix(body, []byte("\xff\xfe")) || bytes.HasPrefix(body, []byte("\xfe\xff")) // says more than the header
	if bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) || declared && !wide && strings.Contains(contentType, "utf-8") {
		return body, nil
	}
	if !declared && !wide {
		i := indexFold(head, "charset=")
		if i < 0 && utf8.Valid(body) {
			return body, nil
		}
		if i >= 0 && indexFold(bytes.TrimLeft(head[i+len("charset="):], `"' `), "utf-8") == 0 {
			return body, nil
		}
	}
	enc, name, _ := charset.DetermineEncoding(head, contentType)
	if name == "utf-8" {
		return body, nil
	}
	out, err := enc.NewDecoder().Bytes(body)
	if err != nil {
		return body, nil
	}
	if strings.HasPrefix(name, "utf-16") || name == "replacement" {
		return out, nil
	}
	return out, &query{enc}
}

// indexFold finds a word of ASCII letters in any case. bytes.ToLower is not for it: it changes the length of what is no UTF-8.
func indexFold(b []byte, word string) int {
	for i := 0; i+len(word) <= len(b); i++ {
		j := 0
		for j < len(word) && lower(b[i+j]) == word[j] {
			j++
		}
		if j == len(word) {
			return i
		}
	}
	return -1
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// query encodes the queries of references as browsers do for a page that is not in UTF-8: in the page's own encoding, with what that
// cannot say as a number in "&#...;" (URL Standard, "percent-encode after encoding"). Nil does nothing.
type query struct{ enc encoding.Encoding }

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
	for rest := ref[from:end]; rest != ""; {
		n := 0
		for n < len(rest) && rest[n] < utf8.RuneSelf {
			n++
		}
		b.WriteString(rest[:n])
		rest = rest[n:]
		if rest == "" {
			break
		}
		r, n := utf8.DecodeRuneInString(rest)
		out, _ := encoding.HTMLEscapeUnsupported(q.enc.NewEncoder()).String(string(r))
		if strings.HasPrefix(out, "&#") {
			out = strings.NewReplacer("&", "%26", "#", "%23", ";", "%3B").Replace(out)
		}
		for i := range len(out) {
			if out[i] < utf8.RuneSelf {
				b.WriteByte(out[i])
			} else {
				const hex = "0123456789ABCDEF"
				b.Write([]byte{'%', hex[out[i]>>4], hex[out[i]&15]})
			}
		}
		rest = rest[n:]
	}
	b.WriteString(ref[end:])
	return b.String()
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
