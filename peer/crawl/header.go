package crawl

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"shoal/channel/markup"
)

// readHead reads the header of a response, up to the empty line that ends it, into l.raw. Lines may end in LF alone, and empty ones may
// come before it. It gives the number of octets read.
func (l *line) readHead() (n int, err error) {
	l.raw = l.raw[:0]
	for from := 0; ; from = len(l.raw) {
		for {
			part, err := l.br.ReadSlice('\n')
			l.raw = append(l.raw, part...)
			switch n += len(part); {
			case n > MaxHeader:
				return n, errHeader
			case errors.Is(err, bufio.ErrBufferFull): // the line goes on
				continue
			case err == io.EOF:
				return n, io.ErrUnexpectedEOF
			case err != nil:
				return n, err
			}
			break
		}
		if len(bytes.Trim(l.raw[from:], "\r\n")) > 0 {
			continue
		}
		if from > 0 {
			return n, nil
		}
		l.raw = l.raw[:0] // it came before the status line
	}
}

// framing collects the fields that say where a body ends.
type framing struct {
	lengths, codings []string
	at               [][2]int // where they are in the header
}

// note notes the field that a header ends with, and tells whether it is one of them.
func (f *framing) note(out []byte, from int) bool {
	name, value, _ := bytes.Cut(out[from:len(out)-len("\r\n")], []byte(": "))
	switch {
	case markup.EqualFold(name, "content-length"):
		f.lengths = append(f.lengths, string(value))
	case markup.EqualFold(name, "transfer-encoding"):
		f.codings = append(f.codings, string(value))
	default:
		return false
	}
	f.at = append(f.at, [2]int{from, len(out)})
	return true
}

// plain reports whether they stand there in a form that the parser takes.
func (f *framing) plain() bool {
	switch {
	case len(f.at) == 0:
		return true
	case len(f.at) > 1:
		return false
	case len(f.codings) == 1:
		return strings.EqualFold(f.codings[0], "chunked")
	}
	return isNumber(f.lengths[0])
}

// tidyHeader appends a header as HTTP has it, for net/http's parser and for readers of the archive, which refuse much that browsers, curl and wget
// read. Every line ends in CRLF. A folded field becomes one line. What is no field goes: warnings of a program, a second status line. The field
// Trailer goes: the parser refuses some of its values, and fields after a body are not read. Control characters become spaces. The fields that say
// where the body ends are brought to one form, or left out if they say nothing.
func tidyHeader(out, raw []byte) ([]byte, error) {
	var ends framing
	field := -1 // where the last line's field begins, which may go on in the next; -1: that line was none
	note := func() {
		if field >= 0 {
			ends.note(out, field)
		}
		field = -1
	}
	started := false // the status line has come
	for line := range bytes.SplitSeq(raw[strayOctets(raw):], []byte("\n")) {
		folded := len(line) > 0 && (line[0] == ' ' || line[0] == '\t')
		line = bytes.Trim(line, " \t\r")
		switch {
		case len(line) == 0:
			continue
		case !started:
			out, started = appendLine(out, statusLine(line)), true
			continue
		case folded:
			if field >= 0 {
				out = out[:len(out)-len("\r\n")]
				if !bytes.HasSuffix(out, []byte(" ")) {
					out = append(out, ' ')
				}
				out = appendLine(out, line)
			}
			continue
		}
		note()
		name, value, ok := bytes.Cut(line, []byte(":"))
		name, value = bytes.TrimRight(name, " \t"), bytes.TrimLeft(value, " \t")
		if !ok || !httpguts.ValidHeaderFieldName(string(name)) || markup.EqualFold(name, "trailer") {
			continue
		}
		field = len(out)
		out = appendLine(append(append(out, name...), ": "...), value)
		if len(value) > 0 && ends.note(out, field) { // what is folded behind a length is none of it
			field = -1
		}
	}
	note()
	if !ends.plain() {
		for _, f := range slices.Backward(ends.at) {
			out = slices.Delete(out, f[0], f[1])
		}
		var err error
		if out, err = appendFraming(out, strings.Join(ends.lengths, ","), strings.Join(ends.codings, ",")); err != nil {
			return nil, err
		}
	}
	return append(out, "\r\n"...), nil
}

// strayOctets is how much stands before the "HTTP" of a status line, as a program's byte order mark. Browsers pass over four octets.
func strayOctets(raw []byte) int {
	return max(0, markup.IndexFold(raw[:min(len(raw), 4+len("http"))], "http"))
}

// isNumber reports whether a length is one.
func isNumber(said string) bool {
	_, err := strconv.ParseUint(said, 10, 63)
	return err == nil
}

// appendLine appends a line with its control characters as spaces.
func appendLine(out, line []byte) []byte {
	for _, c := range line {
		if c < ' ' && c != '\t' || c == 0x7f {
			c = ' '
		}
		out = append(out, c)
	}
	return append(out, "\r\n"...)
}

// statusLine corrects a status line as "http/1.1  200 OK", "HTTP/1 200", "HTTP 200" and "HTTP/1.1 200OK". Others it leaves to the parser.
func statusLine(line []byte) []byte {
	words := bytes.Fields(line)
	if len(words) < 2 || len(words[0]) < len("HTTP") || !markup.EqualFold(words[0][:len("HTTP")], "http") {
		return line
	}
	version, ok := plainVersion(string(words[0][len("HTTP"):]))
	digits := 0
	for digits < len(words[1]) && words[1][digits] >= '0' && words[1][digits] <= '9' {
		digits++
	}
	if !ok || digits != len("200") {
		return line
	}
	status := fmt.Sprintf("HTTP/%s %s", version, words[1][:digits])
	if rest, same := bytes.CutPrefix(line, []byte(status)); same && (len(rest) == 0 || rest[0] == ' ') {
		return line
	}
	if words[1] = words[1][digits:]; len(words[1]) == 0 {
		words = words[1:]
	}
	return bytes.TrimRight(fmt.Appendf(nil, "%s %s", status, bytes.Join(words[1:], []byte(" "))), " ")
}

// plainVersion brings what follows the "HTTP" of a status line to the form "1.1". A version that is not there, or only half, is taken for the
// oldest.
func plainVersion(said string) (version string, ok bool) {
	said = strings.TrimPrefix(said, "/")
	if strings.Trim(said, "0123456789.") != "" || strings.Count(said, ".") > 1 {
		return "", false
	}
	major, minor, _ := strings.Cut(said, ".")
	return cmp.Or(major, "1")[:1] + "." + cmp.Or(minor, "0")[:1], true
}

// compressions are the transfer codings that change a body. Nobody asks for them. Those that are content codings, too, become such; the parser refuses the others.
var compressions = map[string]bool{"gzip": true, "x-gzip": true, "deflate": true, "compress": true, "x-compress": true}

// appendFraming appends Content-Length or Transfer-Encoding. As in browsers a length that is no number says nothing, and the body ends with the
// connection, and a transfer coding that is none ("binary", "utf-8") says nothing. Two lengths that differ are an error.
func appendFraming(out []byte, lengths, transfers string) ([]byte, error) {
	var known []string
	for coding := range strings.SplitSeq(transfers, ",") {
		coding = strings.ToLower(strings.TrimSpace(coding))
		if again := len(known) > 0 && known[len(known)-1] == coding; (coding == "chunked" || compressions[coding]) && !again {
			known = append(known, coding)
		}
	}
	last := len(known) - 1
	if last >= 0 && known[last] == "chunked" {
		last--
	}
	if inner := known[:last+1]; len(inner) > 0 && !slices.ContainsFunc(inner, func(coding string) bool { return !codings[coding] }) {
		// The last content coding is taken off first, as the transfer coding must be.
		out, known = fmt.Appendf(out, "Content-Encoding: %s\r\n", strings.Join(inner, ", ")), known[last+1:]
		lengths = ""
	}
	if len(known) > 0 { // a length beside it does not count (RFC 9112, section 6.3)
		return fmt.Appendf(out, "Transfer-Encoding: %s\r\n", strings.Join(known, ", ")), nil
	}
	length := int64(-1)
	for said := range strings.SplitSeq(lengths, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(said), 10, 63)
		switch {
		case err != nil:
			continue
		case length >= 0 && length != int64(n):
			return nil, fmt.Errorf("crawl: malformed: Content-Length is %d and %d", length, n)
		}
		length = int64(n)
	}
	if length >= 0 {
		out = fmt.Appendf(out, "Content-Length: %d\r\n", length)
	}
	return out, nil
}
