package crawl

import (
	"bufio"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// acceptEncoding is what a request offers.
const acceptEncoding = "gzip, br, zstd"

const (
	maxEncodings = 3       // layers of content encoding that are taken off
	bombRatio    = 100     // a body cut at its limit that grew by more is a bomb, not a long page
	zstdWindow   = 8 << 20 // RFC 9659: the most that a client need support

	encodingSlack = 64 << 10 // bytes that an encoded body may have beyond the most of what it says
)

// decoder reads bodies. Its readers are kept from one to the next. Owned by the fetcher.
type decoder struct {
	gz *gzip.Reader
	br *brotli.Reader
	zs *zstd.Decoder
}

// counter counts what comes off the wire.
type counter struct {
	r    io.Reader
	n    int64
	most int64 // an encoded body of more is none: it says less than it takes
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

// body appends the decoded body to buf, at most limit bytes of it.
func (d *decoder) body(resp *http.Response, buf []byte, limit int) (out []byte, truncated bool, err error) {
	wire := &counter{r: resp.Body, most: math.MaxInt64}
	r, encoded, err := d.reader(wire, resp.Header.Values("Content-Encoding"), int64(limit)+encodingSlack)
	if err != nil {
		return buf, false, wire.blame(err)
	}
	out, truncated, err = readAll(r, buf, limit)
	if encoded {
		if truncated && int64(len(out)) > bombRatio*max(wire.n, 1) {
			return out[:0], true, errBomb
		}
		if err != nil {
			err = wire.blame(err)
		}
	}
	return out, truncated, err
}

// blame tells an error of the connection from one of the encoding.
func (c *counter) blame(err error) error {
	if c.err != nil || errors.Is(err, errEncoding) || errors.Is(err, errBomb) {
		return err
	}
	return fmt.Errorf("%w: %w", errEncoding, err)
}

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

// reader takes off the content encodings, the last applied first. What lies between two of them, or before the first, is bounded too: a
// few bytes may decompress to what decompresses to nothing, for hours.
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

// layer makes the reader of one encoding; a kept one if it is the only layer.
func (d *decoder) layer(r io.Reader, name string, only bool) (io.Reader, error) {
	switch name {
	case "gzip", "x-gzip":
		if only && d.gz != nil {
			if err := d.gz.Reset(r); err != nil {
				return nil, err
			}
			return d.gz, nil
		}
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		if only {
			d.gz = z
		}
		return z, nil
	case "br":
		if only && d.br != nil {
			return d.br, d.br.Reset(r)
		}
		b := brotli.NewReader(r)
		if only {
			d.br = b
		}
		return b, nil
	case "zstd":
		if only && d.zs != nil {
			if err := d.zs.Reset(r); err != nil {
				return nil, err
			}
			return d.zs, nil
		}
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		if only {
			d.zs = z
			return z, nil
		}
		return z.IOReadCloser(), nil
	case "deflate": // zlib, as the standard has it, or raw deflate, as many servers send
		b := bufio.NewReader(r)
		if head, err := b.Peek(2); err == nil && head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
			z, err := zlib.NewReader(b)
			if err != nil {
				return nil, err
			}
			return z, nil
		}
		return flate.NewReader(b), nil
	}
	return nil, fmt.Errorf("%w: %q is unknown", errEncoding, name)
}

func (d *decoder) close() {
	if d.zs != nil {
		d.zs.Close()
	}
}
