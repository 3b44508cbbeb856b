package crawl

import (
	"bytes"
	"compress/gzip"
	"io"
	"regexp"

	"shoal/channel"
)

// Bounds of a file that is itself gzip.
const (
	maxUnzipped = 50 << 20 // octets that are decompressed, which is what the protocol allows; maxSitemap of them are kept
	maxHead     = 64 << 10 // octets in which an entry ends
)

// unzipped decompresses a file that is itself gzip, apart from any content encoding. Of one that is too long each crawl reads the document's beginning,
// which says what it is and may list what is new, and behind it another part.
func unzipped(b []byte, gen channel.Gen) []byte {
	if !bytes.HasPrefix(b, []byte("\x1f\x8b")) {
		return b
	}
	text, more, err := unzip(b, 0)
	if err != nil {
		return b
	}
	if more == 0 {
		return text
	}
	ends := entryEnd
	if !ends.Match(text[:maxHead]) {
		ends = lineEnd
	}
	var head []byte
	for _, near := range []int{maxSitemap/beginning - maxHead, 0} {
		if end := ends.FindIndex(text[near : near+maxHead]); end != nil {
			head = bytes.Clone(text[:near+end[1]])
			break
		}
	}
	step := maxSitemap - len(head) - 3*maxHead // parts overlap by what may be lost at the beginning of one
	from := step * place(gen, sqrt7, 1+(more+step-1)/step)
	if from == 0 {
		return text
	}
	text = nil
	if text, _, err = unzip(b, min(from, more)); err != nil {
		return b
	}
	if end := ends.FindIndex(text[len(head):]); end != nil {
		text = text[end[1]:] // by the length of head too little
		copy(text, head)
	}
	return text
}

// entryEnd is what ends an entry of a sitemap, an index or a feed, lineEnd one of a list.
var (
	entryEnd = regexp.MustCompile(`(?i)</([a-z0-9_.-]+:)?(url|sitemap|item|entry)\s*>`)
	lineEnd  = regexp.MustCompile(`[\r\n]`)
)

// unzip gives up to maxSitemap octets of what a file holds, behind the first from of them, and how many more there are. What came before an error counts.
func unzip(b []byte, from int) (out []byte, more int, err error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, 0, err
	}
	_, _ = io.CopyN(io.Discard, z, int64(from))
	out, _ = io.ReadAll(io.LimitReader(z, maxSitemap))
	n, _ := io.CopyN(io.Discard, z, int64(maxUnzipped-from-len(out)))
	return out, int(n), nil
}
