package crawl

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"regexp"

	fast "github.com/klauspost/compress/gzip"

	"shoal/channel"
)

// Bounds of a long file.
const (
	maxUnzipped = 50 << 20 // octets that are read, which is what the protocol allows; maxSitemap of them are looked at
	maxHead     = 64 << 10 // octets in which an entry ends
)

// isGzip reports whether a file is itself gzip.
func isGzip(b []byte) bool { return bytes.HasPrefix(b, []byte("\x1f\x8b")) }

// packed is the part of a long file behind its beginning. Kept as gzip it takes less memory.
type packed struct {
	gzip []byte
	n    int // octets that it holds
}

// pack packs begin and what a reader has, at most most octets. It stops where the gzip takes as much memory as the beginning of a file does.
func pack(r io.Reader, begin []byte, most int) (p packed, truncated bool, err error) {
	var out bytes.Buffer
	z, err := fast.NewWriterLevel(&out, fast.BestSpeed)
	if err != nil {
		return p, false, err
	}
	buf := make([]byte, maxHead)
	for text := begin; err == nil && !truncated; {
		truncated = p.n+len(text) > most || out.Len() > maxSitemap-2*maxHead
		text = text[:min(len(text), most-p.n)]
		_, _ = z.Write(text) // the buffer takes all
		p.n += len(text)
		if !truncated {
			var n int
			n, err = r.Read(buf)
			text = buf[:n]
		}
	}
	_ = z.Close()
	if p.gzip = out.Bytes(); errors.Is(err, io.EOF) {
		err = nil
	}
	return p, truncated, err
}

// from reads what is behind the first n octets.
func (p packed) from(n int) io.Reader { return unzipper(p.gzip, n) }

// partOf gives the part of a document that a crawl looks at: all of one that is not too long. The document may be gzip, apart from any content encoding.
func partOf(r *response, gen channel.Gen) []byte {
	if isGzip(r.body) {
		return unzipped(r.body, gen)
	}
	return window(r.body, r.rest.n, gen, func(from int) io.Reader {
		within := min(from, len(r.body))
		return io.MultiReader(bytes.NewReader(r.body[within:]), r.rest.from(from-within))
	})
}

// unzipped is partOf of a file that is gzip.
func unzipped(b []byte, gen channel.Gen) []byte {
	z := unzipper(b, 0)
	if z == nil {
		return b
	}
	text, _ := io.ReadAll(io.LimitReader(z, maxSitemap)) // what came before an error counts
	more, _ := io.CopyN(io.Discard, z, int64(maxUnzipped-len(text)))
	return window(text, int(more), gen, func(from int) io.Reader { return unzipper(b, from) })
}

// unzipper reads what a file holds behind its first octets; nil: it is no gzip.
func unzipper(b []byte, from int) io.Reader {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	_, _ = io.CopyN(io.Discard, z, int64(from))
	return z
}

// window gives the part of a document that a crawl looks at. Text is its beginning, and there are more octets behind that. Of a document that is too long
// each crawl looks at the beginning, which says what it is and may list what is new, and behind it at another part. That is read from the document into text.
func window(text []byte, more int, gen channel.Gen, document func(from int) io.Reader) []byte {
	if more == 0 || bytes.IndexByte(text[:maxHead], 0) >= 0 { // a part of UTF-16 would not be known for it
		return text
	}
	ends := entryEnd
	if !ends.Match(text[:maxHead]) {
		ends = lineEnd
	}
	head := 0
	for _, near := range []int{maxSitemap/beginning - maxHead, 0} {
		if end := ends.FindIndex(text[near : near+maxHead]); end != nil {
			head = near + end[1]
			break
		}
	}
	step := maxSitemap - head - 3*maxHead // parts overlap by what may be lost at the beginning of one
	from := step * place(gen, sqrt7, 1+(more+step-1)/step)
	if from == 0 {
		return text
	}
	n, _ := io.ReadFull(document(head+min(from, more)), text[head:]) // what it reads of text lies behind what it writes
	text = text[:head+n]
	if end := ends.FindIndex(text[head:]); end != nil {
		copy(text[end[1]:], text[:head])
		text = text[end[1]:]
	}
	return text
}

// entryEnd is what ends an entry of a sitemap, an index or a feed, lineEnd one of a list.
var (
	entryEnd = regexp.MustCompile(`(?i)</([a-z0-9_.-]+:)?(url|sitemap|item|entry)\s*>`)
	lineEnd  = regexp.MustCompile(`[\r\n]`)
)
