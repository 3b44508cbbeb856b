package crawl

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestBehindZstd: whatever follows whole frames is ignored, be it a single octet, and a frame that breaks off anywhere is broken.
func TestBehindZstd(t *testing.T) {
	noise := make([]byte, 3000)
	for i, rng := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(rng.Uint32())
	}
	var d decoder
	defer d.close()
	read := func(body []byte) (string, error) {
		resp := &http.Response{Header: http.Header{"Content-Encoding": {"zstd"}}, Body: io.NopCloser(bytes.NewReader(body))}
		out, _, err := d.body(resp, nil, 1<<20)
		return string(out), err
	}
	for _, text := range [][]byte{nil, []byte("a"), []byte("<a href=/x>text</a>"), bytes.Repeat([]byte("abcdefgh "), 40_000), noise} {
		for _, options := range [][]zstd.EOption{
			{zstd.WithEncoderCRC(true)}, {zstd.WithEncoderCRC(false)}, {zstd.WithSingleSegment(true)}, {zstd.WithEncoderPadding(64)}, {zstd.WithEncoderLevel(zstd.SpeedBestCompression)}, {zstd.WithZeroFrames(true)},
		} {
			var b bytes.Buffer
			z, err := zstd.NewWriter(&b, options...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := z.Write(text); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			stream := b.Bytes()
			if len(text) < 1000 {
				stream = append(stream, z.EncodeAll(nil, nil)...) // a size that is known
				text := append(bytes.Clone(text), text...)
				if out, err := read(append(bytes.Clone(b.Bytes()), b.Bytes()...)); out != string(text) || err != nil {
					t.Errorf("two frames of %d octets: %q, %v", len(text)/2, out, err)
				}
			}
			for _, more := range []string{"", "\n", "\r\n", "\x28\xb5\x2f", "\x00\x00\x00\x00", "\x50\x2a\x4d", "<!-- 3 ms -->"} {
				if len(stream) == 0 {
					continue // nothing was written of nothing
				}
				if out, err := read(append(bytes.Clone(stream), more...)); out != string(text) || err != nil {
					t.Errorf("%d octets and %q: %d octets, %v", len(text), more, len(out), err)
				}
			}
			for cut := 1; cut < b.Len(); cut += 1 + b.Len()/200 {
				if _, err := read(b.Bytes()[:cut]); !errors.Is(err, errEncoding) && b.Len()%64 != 0 { // what is padded to 64 octets has a whole frame before
					t.Errorf("%d of %d octets of a frame with %d: %v", cut, b.Len(), len(text), err)
				}
			}
		}
	}
}
