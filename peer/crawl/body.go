package crawl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"shoal/channel/markup"
)

// body gives the body of a response whose header was parsed apart from it. Its end is where the header says: net/http has read that.
func (l *line) body(resp *http.Response) io.ReadCloser {
	switch {
	case resp.Body == http.NoBody:
		return resp.Body
	case len(resp.TransferEncoding) > 0, !resp.ProtoAtLeast(1, 1) && saysChunked(l.head) && l.beginsChunk():
		return io.NopCloser(&chunks{r: l.br})
	case resp.ContentLength >= 0:
		return io.NopCloser(&sized{l.br, resp.ContentLength})
	}
	return io.NopCloser(l.br)
}

// saysChunked reports whether a tidy header says that the body is chunked. net/http does not look at that in HTTP/1.0.
func saysChunked(head []byte) bool {
	i := markup.IndexFold(head, "\r\ntransfer-encoding: ")
	return i >= 0 && markup.IndexFold(head[i:], ": chunked\r\n") == len("\r\ntransfer-encoding")
}

// beginsChunk reports whether a body begins with the line of a chunk's size: in HTTP/1.0 the body may be chunked, as its header says, or may not.
func (l *line) beginsChunk() bool {
	for n := 1; ; n++ {
		text, err := l.br.Peek(n)
		if err != nil || n > maxSizeDigits {
			return false
		}
		if size := chunkSize(text); len(size) < n {
			return len(size) > 0 && strings.IndexByte("\r\n; \t", text[n-1]) >= 0
		}
	}
}

const maxSizeDigits = 16

// sized reads a body of a known length.
type sized struct {
	r    *bufio.Reader
	left int64
}

func (s *sized) Read(b []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.r.Read(b[:min(int64(len(b)), s.left)])
	if s.left -= int64(n); err == io.EOF && s.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Bounds of a chunked body.
const (
	maxChunkLine = 16 << 10 // octets of the line with a chunk's size, as in browsers
	maxTrailer   = 64 << 10 // octets of the fields after the last chunk
	maxOverhead  = 16 << 10 // octets of lines beyond what honest chunks have
	fairOverhead = 16       // octets of a line that are no overhead
)

var errChunks = errors.New("crawl: broken chunked encoding")

// chunks reads a chunked body (RFC 9112, section 7.1). net/http's reader is not for it: it refuses lines that end in LF alone, as hosts write
// them whose headers do too. The fields after the last chunk do not count.
type chunks struct {
	r        *bufio.Reader
	left     int64 // of the present chunk
	begun    bool  // a chunk has been read, so that a line end must come before the next one
	over     bool
	overhead int64
}

func (c *chunks) Read(b []byte) (int, error) {
	for c.left == 0 && !c.over {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if c.over {
		return 0, io.EOF
	}
	n, err := c.r.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	return n, cutOff(err)
}

// next begins the next chunk, or ends the body.
func (c *chunks) next() error {
	if c.begun {
		end, err := c.line()
		if err != nil {
			return err
		}
		if len(end) > 0 {
			return fmt.Errorf("%w: a chunk is longer than its size", errChunks)
		}
	}
	text, err := c.line()
	if err != nil {
		return err
	}
	length := int64(len(text))
	n, err := strconv.ParseUint(string(chunkSize(text)), 16, 62)
	if err != nil {
		return fmt.Errorf("%w: a chunk's size is %.20q", errChunks, text)
	}
	c.begun, c.left = true, int64(n)
	if n == 0 {
		c.over = true
		return c.trailer()
	}
	// Many small chunks are fair, and long lines with large chunks are.
	if c.overhead = max(0, c.overhead+length-fairOverhead-2*c.left); c.overhead > maxOverhead {
		return fmt.Errorf("%w: it is little but sizes", errChunks)
	}
	return nil
}

// chunkSize gives the digits that a chunk's first line begins with; nil: none. An extension may follow, or whatever else is no letter or digit.
func chunkSize(text []byte) []byte {
	text = bytes.TrimLeft(text, " \t")
	n := 0
	for n < len(text) && (text[n] >= '0' && text[n] <= '9' || text[n]|0x20 >= 'a' && text[n]|0x20 <= 'f') {
		n++
	}
	if n < len(text) && markup.IsLetter(text[n]) {
		return nil
	}
	return text[:n]
}

// line reads a line without its end.
func (c *chunks) line() ([]byte, error) {
	text, err := c.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || len(text) > maxChunkLine {
		return nil, fmt.Errorf("%w: a line without an end", errChunks)
	}
	return bytes.TrimRight(text, "\r\n"), cutOff(err)
}

// trailer passes over the fields after the last chunk. A host that closes the connection instead of ending them has said all.
func (c *chunks) trailer() error {
	for n := 0; n <= maxTrailer; {
		text, err := c.line()
		if errors.Is(err, io.ErrUnexpectedEOF) || err == nil && len(text) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		n += len(text) + 1
	}
	return errors.New("crawl: malformed: long trailer after the last chunk")
}

// cutOff is the error of a connection that ends before a body does.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
