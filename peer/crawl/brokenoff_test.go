package crawl

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"testing"
)

// TestPageBrokenOffWithinCharacter: a page in UTF-8 whose connection breaks off within a character is still in UTF-8, so that its links are those
// that it has.
func TestPageBrokenOffWithinCharacter(t *testing.T) {
	const page = "<a href='/\u0436'>x</a> \u0436"
	part := page[:len(page)-1]
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, part)
	z.Flush()
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
	for name, answer := range map[string]string{
		"a length": head + "Content-Length: 900\r\n\r\n" + part,
		"chunks":   head + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", len(part), part),
		"gzip":     head + fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", zipped.Len()) + zipped.String(),
	} {
		cfg, s := rawSite(t, map[string]string{"/": answer})
		run(t, cfg)
		if p := s.pages()[0]; !slices.Equal(p.Links, []string{"http://site.test/%D0%B6"}) || p.Error == "" || string(p.Body) != part[:len(part)-1] {
			t.Errorf("%s: links %q, body %q, error %q", name, p.Links, p.Body, p.Error)
		}
	}
}
