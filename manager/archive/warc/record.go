// Package warc writes and reads WARC 1.1 files (ISO 28500:2017), one gzip member a record, so that any tool that knows the format can
// read what the archive keeps, from any offset that an index names.
//
// It writes what the archive needs: warcinfo, response, revisit and metadata records. It is not a general library for WARC: it keeps
// no request records, splits no record into segments, and never writes the address of the machine that fetched.
//
// Invariants: a record is appended whole or not at all; the same record gives the same bytes; a file that was cut anywhere is repaired
// by cutting it at the last length that was committed.
package warc

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// The types of records.
const (
	Info     = "warcinfo"
	Response = "response"
	Revisit  = "revisit"
	Metadata = "metadata"
)

// Profiles of revisit records.
const (
	SameDigest  = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	NotModified = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
)

// ID is the UUID of a record.
type ID [16]byte

// Reasons for which a payload was cut.
const (
	CutLength      = "length"      // there is a limit
	CutTime        = "time"        // it took too long
	CutDisconnect  = "disconnect"  // the connection broke
	CutUnspecified = "unspecified" // another
)

// NewID derives a record's id from what makes it unique, so that a repeated write is the same record.
func NewID(seed [32]byte, n int) ID {
	sum := sha256.Sum256(strconv.AppendInt(append([]byte("shoal warc record\n"), seed[:]...), int64(n), 10))
	id := ID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8: made by a rule of our own (RFC 9562)
	id[8] = id[8]&0x3f | 0x80
	return id
}

func (id ID) String() string {
	return fmt.Sprintf("<urn:uuid:%x-%x-%x-%x-%x>", id[0:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// Digest writes a SHA-256 as WARC does: a label and a token, in lower-case Base16.
func Digest(sum [32]byte) string {
	return digestLabel + hex.EncodeToString(sum[:])
}

const digestLabel = "sha256:"

// Record is one record to be written. Its block is the concatenation of Head and Body.
type Record struct {
	Type      string
	ID        ID
	Date      time.Time
	URI       string    // target
	Filename  string    // warcinfo
	Refers    ID        // metadata, revisit: the record that it is about; zero: none
	RefersURI string    // revisit
	RefersAt  time.Time // revisit; written to the second
	Profile   string    // revisit
	Payload   [32]byte  // SHA-256 of the payload; zero: none
	Protocol  string    // response, revisit: over which the payload came, as Protocol words it; empty: unknown
	Truncated string    // why the payload was cut, CutLength or another; empty: it is whole
	Head      []byte    // response: HTTP header
	Body      []byte    // response: payload

	// Fields of our own, which other readers skip.
	State        string // how far the version is believed, in exports; empty: not told
	Deliverer    string // who delivered the visit, by number; empty: not known
	ShowsVisitor bool   // the payload shows the address of a peer that fetched it
}

// Names of the fields of our own.
const (
	FieldState        = "Shoal-State"
	FieldDeliverer    = "Shoal-Deliverer"
	FieldShowsVisitor = "Shoal-Shows-Visitor"
)

// contentType is the media type of a record's block.
func (r *Record) contentType() string {
	switch r.Type {
	case Response, Revisit:
		return "application/http;msgtype=response"
	default:
		return "application/warc-fields"
	}
}

// appendHeader appends the WARC header.
func (r *Record) appendHeader(b []byte) []byte {
	field := func(name, value string) {
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, value...)
		b = append(b, "\r\n"...)
	}
	b = append(b, "WARC/1.1\r\n"...)
	field("WARC-Type", r.Type)
	field("WARC-Record-ID", r.ID.String())
	field("WARC-Date", date(r.Date))
	if r.URI != "" {
		field("WARC-Target-URI", r.URI)
	}
	if r.Filename != "" {
		field("WARC-Filename", r.Filename)
	}
	if r.Refers != (ID{}) {
		field("WARC-Refers-To", r.Refers.String())
	}
	if r.RefersURI != "" {
		field("WARC-Refers-To-Target-URI", r.RefersURI)
	}
	if !r.RefersAt.IsZero() {
		field("WARC-Refers-To-Date", date(r.RefersAt.Truncate(time.Second))) // most indexes have no more of it, and readers look for a record then or after
	}
	if r.Profile != "" {
		field("WARC-Profile", r.Profile)
	}
	if r.Payload != ([32]byte{}) {
		field("WARC-Payload-Digest", Digest(r.Payload))
	}
	if r.Type == Response {
		h := sha256.New()
		h.Write(r.Head)
		h.Write(r.Body)
		field("WARC-Block-Digest", Digest([32]byte(h.Sum(nil))))
	}
	if r.Protocol != "" {
		field("WARC-Protocol", r.Protocol)
	}
	if cut := r.truncated(); cut != "" {
		field("WARC-Truncated", cut)
	}
	if r.State != "" {
		field(FieldState, r.State)
	}
	if r.Deliverer != "" {
		field(FieldDeliverer, r.Deliverer)
	}
	if r.ShowsVisitor {
		field(FieldShowsVisitor, "true")
	}
	if len(r.Head)+len(r.Body) > 0 || r.Type != Revisit { // a revisit without a block has no type of one
		field("Content-Type", r.contentType())
	}
	field("Content-Length", strconv.Itoa(len(r.Head)+len(r.Body)))
	return append(b, "\r\n"...)
}

// truncated is why the block is not whole. That of a revisit with an HTTP header lacks the payload, and WARC 1.1 (6.7.2) has it say so.
func (r *Record) truncated() string {
	if r.Type == Revisit && r.Profile == SameDigest && len(r.Head) > 0 {
		return CutLength
	}
	return r.Truncated
}

// date writes a WARC-Date, with a fraction only where there is one.
func date(t time.Time) string {
	return t.UTC().Truncate(time.Microsecond).Format("2006-01-02T15:04:05.999999Z07:00")
}

// Compressor turns records into gzip members. It is safe for concurrent use.
type Compressor struct {
	pool  sync.Pool
	level int
}

// NewCompressor makes one with a level of compression from 1 (fast) to 9 (small).
func NewCompressor(level int) (*Compressor, error) {
	if _, err := gzip.NewWriterLevel(nil, level); err != nil {
		return nil, fmt.Errorf("warc: level %d: %w", level, err)
	}
	return &Compressor{level: level}, nil
}

// packer is one gzip writer with its scratch.
type packer struct {
	gz  *gzip.Writer
	out bytes.Buffer
	hdr []byte
}

// Append appends r as one gzip member to dst.
func (c *Compressor) Append(dst []byte, r *Record) ([]byte, error) {
	p, ok := c.pool.Get().(*packer)
	if !ok {
		p = &packer{}
		gz, err := gzip.NewWriterLevel(&p.out, c.level)
		if err != nil {
			return nil, fmt.Errorf("warc: %w", err)
		}
		p.gz = gz
	}
	defer c.pool.Put(p)
	p.out.Reset()
	p.gz.Reset(&p.out)
	p.hdr = r.appendHeader(p.hdr[:0])
	for _, part := range [][]byte{p.hdr, r.Head, r.Body, []byte("\r\n\r\n")} {
		if _, err := p.gz.Write(part); err != nil {
			return nil, fmt.Errorf("warc: compress: %w", err)
		}
	}
	if err := p.gz.Close(); err != nil {
		return nil, fmt.Errorf("warc: compress: %w", err)
	}
	if p.out.Cap() > 1<<20 {
		defer func() { p.out = bytes.Buffer{} }()
	}
	return append(dst, p.out.Bytes()...), nil
}

// Fields writes a block of type application/warc-fields from pairs of name and value. Line breaks in values become spaces.
func Fields(pairs ...string) []byte {
	var b bytes.Buffer
	for n := 0; n+1 < len(pairs); n += 2 {
		b.WriteString(pairs[n])
		b.WriteString(": ")
		b.WriteString(oneLine(pairs[n+1]))
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
}

// ParseDigest reads what Digest writes, and the padded Base32 that it wrote in version 0.1.0.
func ParseDigest(s string) ([]byte, error) {
	token, ok := strings.CutPrefix(s, digestLabel)
	if !ok {
		return nil, fmt.Errorf("%w: digest %.60q", ErrMalformed, s)
	}
	b, err := hex.DecodeString(token)
	if len(token) != hex.EncodedLen(sha256.Size) {
		b, err = base32.StdEncoding.DecodeString(token)
	}
	if err != nil || len(b) != sha256.Size {
		return nil, fmt.Errorf("%w: digest %.80q", ErrMalformed, s)
	}
	return b, nil
}
