package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// ErrMalformed is wrapped when bytes are no record.
var ErrMalformed = errors.New("warc: malformed record")

// Limits of what is read.
const (
	maxHeaderLines = 64
	maxHeaderLine  = 8 << 10
	MaxBlock       = 32 << 20 // bytes of a record's block
)

// Read is one record as read.
type Read struct {
	Fields map[string]string // by lower-case name
	Block  []byte
}

// Field finds a field by its name in any case.
func (r *Read) Field(name string) string { return r.Fields[strings.ToLower(name)] }

// HTTP splits the block of a response or revisit record into header and body.
func (r *Read) HTTP() (header, body []byte) {
	if n := bytes.Index(r.Block, []byte("\r\n\r\n")); n >= 0 {
		return r.Block[:n+4], r.Block[n+4:]
	}
	return r.Block, nil
}

// ReadRecord reads the gzip member that member holds, from its beginning.
func ReadRecord(member io.Reader) (*Read, error) {
	gz, err := gzip.NewReader(member)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	gz.Multistream(false)
	return readRecord(gz)
}

func readRecord(in io.Reader) (*Read, error) {
	br := bufio.NewReaderSize(in, maxHeaderLine)
	line := func() (string, error) {
		b, err := br.ReadSlice('\n')
		if err != nil {
			return "", fmt.Errorf("%w: header: %w", ErrMalformed, err)
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
	version, err := line()
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(version, "WARC/1.") {
		return nil, fmt.Errorf("%w: begins with %.20q", ErrMalformed, version)
	}
	r := &Read{Fields: make(map[string]string)}
	for {
		l, err := line()
		if err != nil {
			return nil, err
		}
		if l == "" {
			break
		}
		name, value, ok := strings.Cut(l, ":")
		if !ok || len(r.Fields) >= maxHeaderLines {
			return nil, fmt.Errorf("%w: header line %.40q", ErrMalformed, l)
		}
		r.Fields[strings.ToLower(name)] = strings.TrimSpace(value)
	}
	n, err := strconv.Atoi(r.Field("Content-Length"))
	if err != nil || n < 0 || n > MaxBlock {
		return nil, fmt.Errorf("%w: Content-Length %.20q", ErrMalformed, r.Field("Content-Length"))
	}
	var block bytes.Buffer
	if m, err := io.CopyN(&block, br, int64(n)); err != nil {
		return nil, fmt.Errorf("%w: block of %d bytes ends after %d: %w", ErrMalformed, n, m, err)
	}
	r.Block = block.Bytes()
	tail, err := io.ReadAll(io.LimitReader(br, 5)) // reads on to the member's checksum
	if err != nil || string(tail) != "\r\n\r\n" {
		return nil, fmt.Errorf("%w: no end of record after its block: %w", ErrMalformed, errors.Join(err))
	}
	return r, nil
}

// Scanner reads the records of a file one after the other.
type Scanner struct {
	in  *counter
	gz  *gzip.Reader
	rec *Read
	off int64
	err error
}

// NewScanner scans a whole file.
func NewScanner(r io.Reader) *Scanner {
	return &Scanner{in: &counter{r: bufio.NewReaderSize(r, 64<<10)}}
}

// Scan goes to the next record.
func (s *Scanner) Scan() bool {
	if s.err != nil {
		return false
	}
	s.off = s.in.n
	if _, err := s.in.r.Peek(1); err == io.EOF {
		return false
	}
	if s.gz == nil {
		s.gz = new(gzip.Reader)
	}
	if err := s.gz.Reset(s.in); err != nil {
		s.err = fmt.Errorf("%w: at %d: %w", ErrMalformed, s.off, err)
		return false
	}
	s.gz.Multistream(false)
	rec, err := readRecord(s.gz)
	if err != nil {
		s.err = fmt.Errorf("record at %d: %w", s.off, err)
		return false
	}
	s.rec = rec
	return true
}

// Record is the record that Scan read.
func (s *Scanner) Record() *Read { return s.rec }

// Offset is where it begins; after Scan has returned false, where the next one would.
func (s *Scanner) Offset() int64 { return s.off }

// End is where the record that Scan read ends, and the next one begins.
func (s *Scanner) End() int64 { return s.in.n }

// Err tells why Scan ended, if not with the end of the file.
func (s *Scanner) Err() error { return s.err }

// counter counts what the decompressor has consumed: it reads byte by byte where it must not read too far.
type counter struct {
	r *bufio.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counter) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}
