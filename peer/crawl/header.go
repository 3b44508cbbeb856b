package crawl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// readHead reads the header of a response, up to the empty line that ends it, into l.raw. Lines may end in LF alone, and empty ones may
// come before it.
func (l *line) readHead() error {
	l.raw = l.raw[:0]
	for from := 0; ; from = len(l.raw) {
		for {
			part, err := l.br.ReadSlice('\n')
			l.raw = append(l.raw, part...)
			switch {
			case len(l.raw) > MaxHeader:
				return errHeader
			case errors.Is(err, bufio.ErrBufferFull): // the line goes on
				continue
			case err == io.EOF:
				return io.ErrUnexpectedEOF
			case err != nil:
				return err
			}
			break
		}
		if len(bytes.Trim(l.raw[from:], "\r\n")) > 0 {
			continue
		}
		if from > 0 {
			return nil
		}
		l.raw = l.raw[:0] // it came before the status line
	}
}

// tidyHeader appends a header as HTTP has it, for net/http's parser and for readers of the archive, which refuse much that browsers, curl and wget
// read. Every line ends in CRLF. A folded field becomes one line. What is no field goes: warnings of a program, a second status line. Control
// characters become spaces. The fields that say where the body ends are brought to one form, or left out if they say nothing.
func tidyHeader(out, raw []byte) ([]byte, error) {
	var lengths, codings []string
	var framing [][2]int          // where their fields are in out
	started, open := false, false // the status line has come; the last line was a field that may go on
	for line := range bytes.SplitSeq(raw, []byte("\n")) {
		folded := len(line) > 0 && (line[0] == ' ' || line[0] == '\t')
		line = bytes.Trim(line, " \t\r")
		switch {
		case len(line) == 0:
			continue
		case !started:
			out, started = appendLine(out, statusLine(line)), true
			continue
		case folded:
			if open {
				out = appendLine(append(out[:len(out)-len("\r\n")], ' '), line)
			}
			continue
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		name, value = bytes.TrimRight(name, " \t"), bytes.TrimLeft(value, " \t")
		if open = ok && httpguts.ValidHeaderFieldName(string(name)); !open {
			continue
		}
		from := len(out)
		out = appendLine(append(append(out, name...), ": "...), value)
		switch {
		case equalFold(name, "content-length"):
			lengths = append(lengths, string(value))
		case equalFold(name, "transfer-encoding"):
			codings = append(codings, string(value))
		default:
			continue
		}
		framing, open = append(framing, [2]int{from, len(out)}), false
	}
	if len(framing) > 1 || len(codings) == 1 && !strings.EqualFold(codings[0], "chunked") || len(lengths) == 1 && !isNumber(lengths[0]) {
		for _, f := range slices.Backward(framing) {
			out = slices.Delete(out, f[0], f[1])
		}
		var err error
		if out, err = appendFraming(out, strings.Join(lengths, ","), strings.Join(codings, ",")); err != nil {
			return nil, err
		}
	}
	return append(out, "\r\n"...), nil
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

// statusLine corrects a status line as "http/1.1  200 OK" and "HTTP/1 200". Others it leaves to the parser.
func statusLine(line []byte) []byte {
	words := bytes.Fields(line)
	if len(words) < 2 || len(words[0]) < len("HTTP/1") || !equalFold(words[0][:len("HTTP/")], "http/") {
		return line
	}
	version := string(words[0][len("HTTP/"):])
	if !strings.Contains(version, ".") {
		version += ".0"
	}
	status := fmt.Sprintf("HTTP/%s %s", version, words[1])
	if bytes.HasPrefix(line, []byte(status)) {
		return line
	}
	return bytes.TrimRight(fmt.Appendf(nil, "%s %s", status, bytes.Join(words[2:], []byte(" "))), " ")
}

// appendFraming appends Content-Length or Transfer-Encoding. As in browsers a length that is no number says nothing, and the body ends with the
// connection. Two lengths that differ are an error.
func appendFraming(out []byte, lengths, codings string) ([]byte, error) {
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
	var known []string
	for coding := range strings.SplitSeq(codings, ",") {
		coding = strings.ToLower(strings.TrimSpace(coding))
		if again := len(known) > 0 && known[len(known)-1] == coding; httpguts.ValidHeaderFieldName(coding) && coding != "identity" && !again {
			known = append(known, coding)
		}
	}
	switch {
	case len(known) > 0: // a length beside it does not count (RFC 9112, section 6.3)
		out = fmt.Appendf(out, "Transfer-Encoding: %s\r\n", strings.Join(known, ", "))
	case length >= 0:
		out = fmt.Appendf(out, "Content-Length: %d\r\n", length)
	}
	return out, nil
}
