package warc

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// MaxHTTPHeader bounds the HTTP header of a record.
const MaxHTTPHeader = 64 << 10

// origPrefix goes before the fields that told how the body was coded on the wire: it is stored decoded, and a reader that believed
// them would decode it again.
const origPrefix = "X-Archive-Orig-"

// HTTPHeader makes the header of a response record from the received status line and fields. The status line becomes one of HTTP/1, whatever the
// host spoke, because readers know no other. Fields about the body's coding and length are renamed, and its length is stated. Control characters,
// for which readers refuse a header, become spaces. Bytes that are no HTTP header are replaced by a header that has only the status.
func HTTPHeader(received []byte, status, length int) []byte {
	out := make([]byte, 0, len(received)+128)
	line, rest, _ := bytes.Cut(received, []byte("\n"))
	if line = bytes.TrimRight(line, "\r"); !isStatusLine(line, status) {
		line, rest = fmt.Appendf(nil, "HTTP/1.1 %d", status), nil
	}
	out = appendLine(out, http1(line))
	for len(rest) > 0 && len(out) < MaxHTTPHeader {
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		line = bytes.TrimRight(line, "\r")
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !isToken(name) || bytes.IndexByte(value, 0) >= 0 || bytes.IndexByte(value, '\r') >= 0 {
			continue // folded lines and rubbish
		}
		switch strings.ToLower(string(name)) {
		case "content-encoding", "transfer-encoding", "content-length":
			out = append(out, origPrefix...)
		}
		out = appendLine(out, line)
	}
	if !Bodiless(status) { // such a response must not state a length
		out = append(out, "Content-Length: "...)
		out = append(strconv.AppendInt(out, int64(length), 10), "\r\n"...)
	}
	return append(out, "\r\n"...)
}

// Bodiless tells whether a response of a status ends with its header: readers take no bytes behind it for its body.
func Bodiless(status int) bool { return status < 200 || status == 204 }

// appendLine appends a line with its control characters as spaces. A tab may stand in it.
func appendLine(out, line []byte) []byte {
	for _, c := range line {
		if c < ' ' && c != '\t' || c == 0x7f {
			c = ' '
		}
		out = append(out, c)
	}
	return append(out, "\r\n"...)
}

// http1 makes a status line one of HTTP/1, with the space that goes before a reason even if there is none.
func http1(line []byte) []byte {
	version, rest, _ := bytes.Cut(line, []byte(" "))
	if v := string(version); v != "HTTP/1.1" && v != "HTTP/1.0" {
		version = []byte("HTTP/1.1")
	}
	code, reason, _ := bytes.Cut(rest, []byte(" "))
	return bytes.Join([][]byte{version, code, reason}, []byte(" "))
}

// Protocol words over which protocol a header was received, for WARC-Protocol; uri is the URL that it answers. Empty: it does not say.
func Protocol(received []byte, uri string) string {
	version, _, _ := bytes.Cut(received, []byte(" "))
	switch v := string(version); v {
	case "HTTP/1.0", "HTTP/1.1":
		return strings.ToLower(v)
	case "HTTP/2", "HTTP/2.0":
		if strings.HasPrefix(uri, "http:") {
			return "h2c"
		}
		return "h2"
	default:
		return ""
	}
}

// Relength states another length in a header that HTTPHeader made: it is the last field. Version 0.1.0 left the status lines of HTTP/2, and control
// characters.
func Relength(header []byte, status, length int) []byte {
	if line, rest, ok := bytes.Cut(header, []byte("\r\n")); ok && isStatusLine(line, status) {
		tidy := appendLine(make([]byte, 0, len(header)+8), http1(line))
		for len(rest) > 0 {
			line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
			tidy = appendLine(tidy, line)
		}
		header = tidy
	}
	n := bytes.LastIndex(bytes.TrimSuffix(header, []byte("\r\n\r\n")), []byte("\r\n"))
	if n < 0 || !bytes.HasPrefix(header[n+2:], []byte("Content-Length: ")) {
		return HTTPHeader(header, status, length)
	}
	out := append(make([]byte, 0, len(header)+8), header[:n]...)
	out = append(out, "\r\nContent-Length: "...)
	out = strconv.AppendInt(out, int64(length), 10)
	return append(out, "\r\n\r\n"...)
}

// Field finds a field of an HTTP header, without regard to case; empty: none.
func Field(header []byte, name string) string {
	for v := range values(header, name) {
		return v
	}
	return ""
}

// Opaque is a validator as a host compares it: an ETag without the mark of a weak one (RFC 9110, section 13.1.2). Hosts that compress send both forms of one.
func Opaque(validator string) string { return strings.TrimPrefix(validator, "W/") }

// FieldList gives all fields of a name as one list (RFC 9110, section 5.3); empty: none.
func FieldList(header []byte, name string) string {
	return strings.Join(slices.Collect(values(header, name)), ", ")
}

// values goes through the fields of a name.
func values(header []byte, name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range bytes.SplitSeq(header, []byte("\n")) {
			n, v, ok := bytes.Cut(line, []byte(":"))
			if ok && len(n) == len(name) && strings.EqualFold(string(n), name) && !yield(string(bytes.TrimSpace(v))) {
				return
			}
		}
	}
}

// isStatusLine tells whether line is "HTTP/x.y STATUS...". The reason may be anything, as readers do not look at it.
func isStatusLine(line []byte, status int) bool {
	v, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || !bytes.HasPrefix(v, []byte("HTTP/")) || len(v) > 8 {
		return false
	}
	for _, c := range v {
		if c < ' ' {
			return false
		}
	}
	code, _, _ := bytes.Cut(rest, []byte(" "))
	return string(code) == strconv.Itoa(status)
}

func isToken(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("()<>@,;:\\\"/[]?={}", c) >= 0 {
			return false
		}
	}
	return len(b) > 0
}
