package crawl

import (
	"bufio"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// acceptEncoding is what a request offers.
const acceptEncoding = "gzip, br, zstd"

const (
	maxEncodings = 3       // most layers of content encoding
	bombRatio    = 100     // a body cut at its limit that grew by more is a bomb and not a long page
	zstdWindow   = 8 << 20 // RFC 9659: the most that a client need support

	encodingSlack = 64 << 10 // bytes that an encoded body may have beyond the limit of the decoded one
)

// decoder decodes bodies. It keeps its readers from one body to the next. Owned by the fetcher.
type decoder struct {
	gz members
	br *brotli.Reader
	zs *zstd.Decoder
}

// counter counts and bounds what it reads.
type counter struct {
	r    io.Reader
	n    int64
	most int64 // reading more is an error: the decoded body is shorter than its encoding
	err  error // of the connection
}

func (c *counter) Read(b []byte) (int, error) {
	if c.n > c.most {
		return 0, errBomb
	}
	n, err := c.r.Read(b)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// long appends the decoded body to buf, at most limit bytes of it. It gives what comes behind them of a body that is not gzip itself, too, at most most
// bytes in all.
func (d *decoder) long(resp *http.Response, buf []byte, limit, most int) (out []byte, rest packed, truncated bool, err error) {
	wire := &counter{r: resp.Body, most: math.MaxInt64}
	r, encoded, err := d.reader(wire, resp.Header.Values("Content-Encoding"), int64(most)+encodingSlack)
	if err == nil {
		out, truncated, err = readAll(r, buf, limit)
	} else {
		out = buf
	}
	if encoded && truncated && int64(len(out)) > bombRatio*max(wire.n, 1) {
		return out[:0], packed{}, true, errBomb
	}
	if truncated && limit < most && !isGzip(out) {
		rest, truncated, err = pack(r, out[limit:limit+1], most-limit)
	}
	switch {
	case !encoded:
	case err != nil && wire.n == 0 && wire.err == nil && !errors.Is(err, errEncoding): // an empty body is empty in any coding
		err = nil
	case err != nil:
		err = wire.blame(err)
	}
	return out, rest, truncated, err
}

// blame tells an error of the connection from an error of the encoding.
func (c *counter) blame(err error) error {
	if c.err != nil || errors.Is(err, errEncoding) || errors.Is(err, errBomb) {
		return err
	}
	return fmt.Errorf("%w: %w", errEncoding, err)
}

// readAll appends what a reader has to buf. If that is more than limit bytes, the one behind them has been read, too.
func readAll(r io.Reader, buf []byte, limit int) (out []byte, truncated bool, err error) {
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):min(cap(buf), limit+1)])
		buf = buf[:len(buf)+n]
		if len(buf) > limit {
			return buf[:limit], true, nil
		}
		if err == io.EOF {
			return buf, false, nil
		}
		if err != nil {
			return buf, false, err
		}
	}
}

// reader takes off the content encodings, the last applied first. If one is unknown it leaves the body as it is, as browsers do (Fetch,
// "handle content codings"): mostly the body is not encoded at all. The bytes between two encodings are bounded too: a few bytes may
// decompress to something that decompresses to nothing, for hours.
func (d *decoder) reader(wire *counter, fields []string, most int64) (io.Reader, bool, error) {
	var r io.Reader = wire
	var names []string
	for _, f := range fields {
		for name := range strings.SplitSeq(f, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				names = append(names, name)
			}
		}
	}
	if slices.ContainsFunc(names, func(name string) bool { return !codings[name] }) {
		return wire, false, nil
	}
	if len(names) > maxEncodings {
		return nil, true, fmt.Errorf("%w: %d layers", errEncoding, len(names))
	}
	if len(names) > 0 {
		wire.most = most
	}
	for i := len(names) - 1; i >= 0; i-- {
		var err error
		if r, err = d.layer(r, names[i], len(names) == 1); err != nil {
			return nil, true, err
		}
		if i > 0 {
			r = &counter{r: r, most: most}
		}
	}
	return r, len(names) > 0, nil
}

// codings are the content encodings that layer knows.
var codings = map[string]bool{"gzip": true, "x-gzip": true, "br": true, "zstd": true, "deflate": true}

// layer makes the reader of one encoding. It uses a kept reader if there is only one layer.
func (d *decoder) layer(r io.Reader, name string, only bool) (io.Reader, error) {
	switch name {
	case "br":
		b := d.br
		if b == nil || !only {
			b = brotli.NewReader(r)
		} else if err := b.Reset(r); err != nil {
			return nil, err
		}
		if only {
			d.br = b
		}
		return &ended{b}, nil
	case "zstd":
		return d.zstd(r, only)
	case "deflate": // zlib, as the standard has it, or raw deflate, as many servers send
		b := bufio.NewReader(r)
		if head, err := b.Peek(2); err == nil && head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
			if head[1]&zlibDictionary != 0 {
				return nil, zlib.ErrDictionary
			}
			if _, err := b.Discard(len(head)); err != nil {
				return nil, err
			}
			return &zlibBody{flate.NewReader(b), b, adler32.New()}, nil
		}
		return flate.NewReader(b), nil
	}
	m := &d.gz
	if !only {
		m = &members{}
	}
	return m, m.begin(r)
}

func (d *decoder) zstd(r io.Reader, only bool) (io.Reader, error) {
	in := &zstdFrames{r: r}
	if only && d.zs != nil {
		if err := d.zs.Reset(in); err != nil {
			return nil, err
		}
		return &zstdBody{d.zs, in}, nil
	}
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	if only {
		d.zs = z
		return &zstdBody{z, in}, nil
	}
	return &zstdBody{z.IOReadCloser(), in}, nil
}

// zlibBody reads a zlib stream (RFC 1950) behind its header. As in gzip the check at its end may be missing, and errCheck says that it does not hold.
type zlibBody struct {
	z   io.Reader // its deflate stream
	in  *bufio.Reader
	sum hash.Hash32
}

const zlibDictionary = 0x20 // a flag: the host and we would need to know a dictionary

func (r *zlibBody) Read(b []byte) (int, error) {
	n, err := r.z.Read(b)
	r.sum.Write(b[:n])
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	check, peekErr := r.in.Peek(4)
	switch {
	case peekErr != nil && !errors.Is(peekErr, io.EOF):
		return n, peekErr
	case len(check) == 4 && binary.BigEndian.Uint32(check) != r.sum.Sum32():
		return n, errCheck
	}
	return n, io.EOF
}

// members reads all members of a gzip stream (RFC 1952) and ignores what follows the last one. Some servers send more behind a body, others leave out the check
// at its end; neither makes the body broken. If a check is there and does not hold, the error behind the last member is errCheck.
type members struct {
	z     io.ReadCloser // the member's deflate stream
	in    *bufio.Reader
	sum   uint32
	size  uint32
	wrong bool // a check did not hold
}

func (m *members) begin(r io.Reader) error {
	m.wrong = false
	if m.in == nil {
		m.in = bufio.NewReaderSize(r, 4<<10)
	} else {
		m.in.Reset(r)
	}
	return m.member()
}

// Parts of a member, and flags of its header.
const (
	gzipHead, gzipCheck                    = 10, 8
	gzipSum, gzipExtra, gzipName, gzipSays = 2, 4, 8, 16
)

// member reads a member's header.
func (m *members) member() error {
	head, err := m.in.Peek(gzipHead)
	if len(head) == 0 {
		return err
	}
	if len(head) > 2 && !(head[0] == 0x1f && head[1] == 0x8b && head[2] == 8) {
		return gzip.ErrHeader
	}
	if len(head) < gzipHead {
		return short(err)
	}
	flags, skip := head[3], int64(gzipHead)
	if flags&gzipExtra != 0 {
		if head, err = m.in.Peek(gzipHead + 2); err != nil {
			return short(err)
		}
		skip += 2 + int64(binary.LittleEndian.Uint16(head[gzipHead:]))
	}
	if _, err = io.CopyN(io.Discard, m.in, skip); err != nil {
		return short(err)
	}
	for _, text := range []byte{gzipName, gzipSays} {
		for more := flags&text != 0; more; {
			c, err := m.in.ReadByte()
			if err != nil {
				return short(err)
			}
			more = c != 0
		}
	}
	if flags&gzipSum != 0 {
		if _, err = io.CopyN(io.Discard, m.in, 2); err != nil {
			return short(err)
		}
	}
	m.sum, m.size = 0, 0
	if m.z == nil {
		m.z = flate.NewReader(m.in)
		return nil
	}
	return m.z.(flate.Resetter).Reset(m.in, nil)
}

// short is an error of reading a header: its end came too soon, or the connection's own.
func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (m *members) Read(b []byte) (int, error) {
	for {
		n, err := m.z.Read(b)
		m.sum, m.size = crc32.Update(m.sum, crc32.IEEETable, b[:n]), m.size+uint32(n)
		if n > 0 && errors.Is(err, io.EOF) {
			err = nil
		}
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		check, err := m.in.Peek(gzipCheck)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if len(check) < gzipCheck {
			return 0, m.end()
		}
		if binary.LittleEndian.Uint32(check) != m.sum || binary.LittleEndian.Uint32(check[4:]) != m.size {
			m.wrong = true
		}
		if _, err = m.in.Discard(gzipCheck); err != nil {
			return 0, err
		}
		if err := m.member(); errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return 0, m.end()
		} else if err != nil {
			return 0, err
		}
	}
}

// end is the error behind the last member.
func (m *members) end() error {
	if m.wrong {
		return errCheck
	}
	return io.EOF
}

// ended reads a brotli stream to its end and ignores what follows.
type ended struct{ io.Reader }

func (e *ended) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b)
	if err != nil && err.Error() == "brotli: excessive input" { // brotli exports no value for this error
		err = io.EOF
	}
	return n, err
}

func (d *decoder) close() {
	if d.zs != nil {
		d.zs.Close()
	}
}
