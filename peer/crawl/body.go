package crawl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// body gives the body of a response whose header was parsed apart from it. Its end is where the header says: net/http has read that.
func (l *line) body(resp *http.Response) io.ReadCloser {
	switch {
	case resp.Body == http.NoBody:
		return resp.Body
	case len(resp.TransferEncoding) > 0:
		return io.NopCloser(&chunks{r: l.br})
	case resp.ContentLength >= 0:
		return io.NopCloser(&sized{l.br, resp.ContentLength})
	}
	return io.NopCloser(l.br)
}

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
	maxChunkLine = 4 << 10  // octets of the line with a chunk's size
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
	size, _, _ := bytes.Cut(text, []byte(";"))
	n, err := strconv.ParseUint(string(bytes.Trim(size, " \t")), 16, 62)
	if err != nil {
		return fmt.Errorf("%w: a chunk's size is %.20q", errChunks, size)
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
