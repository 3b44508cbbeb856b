package crawl

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"shoal/channel"
)

// body appends the decoded body to buf, at most limit bytes of it.
func (d *decoder) body(resp *http.Response, buf []byte, limit int) (out []byte, truncated bool, err error) {
	out, _, truncated, err = d.long(resp, buf, limit, limit)
	return out, truncated, err
}

// FuzzDecode takes bodies through what a page goes through: content encodings, charset, links. A decoder that has read something else
// before says the same as a new one, and nothing is longer than it may be.
func FuzzDecode(f *testing.F) {
	const text = "<!DOCTYPE html><meta charset=shift_jis><title>\x83e\x83X\x83g</title><a href=\"/a?q=\x83e\">x</a><base href=/b/><a href=c>y</a>"
	pack := func(open func(io.Writer) io.WriteCloser) []byte {
		var b bytes.Buffer
		w := open(&b)
		io.WriteString(w, text)
		w.Close()
		return b.Bytes()
	}
	raw := pack(func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, 9); return z })
	f.Add("", "text/html", []byte(text))
	f.Add("gzip", "text/html; charset=utf-8", gzipped(text))
	f.Add("x-gzip, GZIP", "text/html", gzipped(string(gzipped(text))))
	f.Add("br", "text/html; charset=windows-1251", brotlied(text))
	f.Add("zstd", "application/xhtml+xml; charset=utf-16", pack(func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z }))
	f.Add("deflate", "text/html; charset=iso-2022-jp", pack(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }))
	f.Add("deflate", "text/html; charset=gb18030", raw)
	f.Add("gzip, br", "text/html", brotlied(string(gzipped(text))))
	f.Add("gzip", "text/html; charset=x-user-defined", append(gzipped(text), "and more"...))
	var used decoder
	defer used.close()
	var p page
	f.Fuzz(func(t *testing.T, coding, contentType string, body []byte) {
		const limit = 64 << 10
		if strings.ContainsAny(coding+contentType, "\r\n\x00") {
			return // no header
		}
		read := func(d *decoder) ([]byte, bool, error) {
			return d.body(&http.Response{Header: http.Header{"Content-Encoding": {coding}}, Body: io.NopCloser(bytes.NewReader(body))}, nil, limit)
		}
		var once decoder
		defer once.close()
		want, cut, wantErr := read(&once)
		got, gotCut, err := read(&used)
		if !bytes.Equal(got, want) || cut != gotCut || kindOf(err) != kindOf(wantErr) {
			t.Errorf("a used decoder: %d bytes, %v, %v; a new one: %d, %v, %v", len(got), gotCut, err, len(want), cut, wantErr)
		}
		if len(got) > limit {
			t.Errorf("%d bytes", len(got))
		}
		if k := kindOf(err); err != nil && k != "encoding" && k != "bomb" {
			t.Errorf("%s: %v", k, err)
		}
		before := bytes.Clone(got)
		p.read("http://site.test/d/", got, contentType, "shoal", true)
		if !bytes.Equal(got, before) {
			t.Error("reading changed the body")
		}
		for _, u := range p.links {
			if c, err := channel.Canonical(u); c != u {
				t.Errorf("link %q is not canonical: %q, %v", u, c, err)
			}
		}
	})
}

// TestCodingsAsBrowsersTakeThem: an unknown coding leaves the body as it is, an empty body is empty in any coding, and bytes behind a whole
// body do not spoil it. A body that is cut off, or in another coding than it says, is still broken.
func TestCodingsAsBrowsersTakeThem(t *testing.T) {
	const text = "<a href=/x>text</a>"
	zstded := func() []byte {
		var b bytes.Buffer
		z, _ := zstd.NewWriter(&b)
		io.WriteString(z, text)
		z.Close()
		return b.Bytes()
	}()
	deflated := func() []byte {
		var b bytes.Buffer
		z := zlib.NewWriter(&b)
		io.WriteString(z, text)
		z.Close()
		return b.Bytes()
	}()
	behind := func(b []byte, more string) []byte { return append(bytes.Clone(b), more...) }
	for _, c := range []struct {
		coding string
		body   []byte
		want   string
		err    error
	}{
		{"utf-8", []byte(text), text, nil}, {"none", []byte(text), text, nil}, {"binary", []byte(text), text, nil}, {"8bit, gzip", gzipped(text), string(gzipped(text)), nil},
		{"gzip,", gzipped(text), text, nil}, {"identity, gzip", gzipped(text), text, nil},
		{"gzip", nil, "", nil}, {"br", nil, "", nil}, {"zstd", nil, "", nil}, {"deflate", nil, "", nil}, {"x-gzip", nil, "", nil}, {"gzip, br", nil, "", nil}, {"nonsense", nil, "", nil},
		{"gzip", behind(gzipped(text), "\x00"), text, nil}, {"gzip", behind(gzipped(text), "\r\n<!-- served in 3 ms -->"), text, nil}, {"gzip", behind(gzipped(text), strings.Repeat("\x00", 100_000)), text, nil},
		{"gzip", behind(gzipped(text), "\x1f"), text, nil}, {"gzip", behind(gzipped(text), string(gzipped(text))), text + text, nil}, {"gzip", behind(gzipped(""), "more"), "", nil},
		{"br", behind(brotlied(text), "more"), text, nil}, {"zstd", behind(zstded, "more of it"), text, nil}, {"deflate", behind(deflated, "more"), text, nil},
		{"deflate", deflated[:len(deflated)-4], text, nil}, {"deflate", deflated[:len(deflated)-1], text, nil}, {"deflate", behind(deflated[:len(deflated)-4], "1234"), text, errEncoding}, {"deflate", deflated[:len(deflated)-8], "", errEncoding},
		{"gzip", gzipped(text)[:len(gzipped(text))-8], text, nil}, {"gzip", gzipped(text)[:len(gzipped(text))-3], text, nil}, {"gzip", behind(gzipped(text)[:len(gzipped(text))-8], "12345678"), text, errEncoding},
		{"gzip", allFields(text), text, nil}, {"gzip", behind(gzipped(text), string(allFields(text))), text + text, nil}, {"gzip", allFields(text)[:18], "", errEncoding},
		{"gzip", wrongCheck(text), text, errCheck}, {"gzip", behind(wrongCheck(text), string(gzipped(text))), text + text, errCheck}, {"gzip", behind(gzipped(text), string(wrongCheck(text))), text + text, errCheck},
		{"gzip", behind(wrongCheck(text), "more"), text, errCheck}, {"gzip, br", brotlied(string(wrongCheck(text))), text, errCheck}, {"deflate", behind(deflated[:len(deflated)-4], "1234"), text, errCheck},
		{"gzip", gzipped(text)[:20], "", errEncoding}, {"gzip", []byte(text), "", errEncoding}, {"br", []byte(text), "", errEncoding}, {"zstd", []byte(text), "", errEncoding},
		{"gzip", []byte("\x1f"), "", errEncoding},
	} {
		var d decoder
		for range 2 { // its readers are used again
			out, cut, err := d.body(&http.Response{Header: http.Header{"Content-Encoding": {c.coding}}, Body: io.NopCloser(bytes.NewReader(c.body))}, nil, 1<<20)
			if (c.err == nil || errors.Is(c.err, errCheck)) && string(out) != c.want || !errors.Is(err, c.err) || cut {
				t.Errorf("%s of %q: %q, %v, %v; want %q, %v", c.coding, c.body[:min(len(c.body), 60)], out, cut, err, c.want, c.err)
			}
		}
		d.close()
	}
}

// wrongCheck is gzip whose checksum is another's.
func wrongCheck(text string) []byte {
	b := gzipped(text)
	b[len(b)-8]++
	return b
}

// TestWrongChecks: of a body of which all came, with a check that does not hold, all is used, as in browsers. A robots.txt like that does not forbid its host, and
// what it says holds.
func TestWrongChecks(t *testing.T) {
	answer := func(contentType string, body []byte) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", contentType, len(body), body)
	}
	page := func(text string) string { return answer("text/html", gzipped(text)) }
	const robots = "User-agent: *\nDisallow: /no\nSitemap: /sitemap\n"
	cfg, s := rawSite(t, map[string]string{
		"/robots.txt": answer("text/plain", wrongCheck(robots)), "/sitemap": answer("text/xml", wrongCheck("<urlset><url><loc>/listed</loc></url></urlset>")),
		"/": answer("text/html", wrongCheck("<a href=/no>no</a><a href=/yes>yes</a>")), "/yes": page("yes"), "/no": page("no"), "/listed": page("listed"),
	})
	r := run(t, cfg)
	if want := []string{"http://site.test/", "http://site.test/listed", "http://site.test/yes"}; !slices.Equal(s.urls(), want) || r.Errors["sitemap"] != 0 || r.Errors["encoding"] != 1 {
		t.Errorf("fetched %q, %v: %s", s.urls(), r.Errors, r.Reason)
	}
	for _, p := range s.pages() {
		if root := p.URL == "http://site.test/"; p.Truncated || len(p.Body) == 0 || (p.Error != "") != root {
			t.Errorf("%s: %d octets, cut %v, %s", p.URL, len(p.Body), p.Truncated, p.Error)
		}
	}
	half := answer("text/plain", wrongCheck(robots)[:20])
	cfg, _ = rawSite(t, map[string]string{"/robots.txt": half, "/": page("x")})
	if r := run(t, cfg); r.Outcome != channel.Failed || r.Robots != robotsUnreachable {
		t.Errorf("with half of a robots.txt: outcome %d, robots %s", r.Outcome, r.Robots)
	}
}

// allFields is a gzip member whose header has all that one may have: more data, a name, a comment and a check of its own.
func allFields(text string) []byte {
	plain := gzipped(text)
	b := []byte{0x1f, 0x8b, 8, 2 | 4 | 8 | 16, 0, 0, 0, 0, 0, 255, 3, 0, 'm', 'o', 'r', 'p', 'a', 'g', 'e', 0, 's', 'a', 'y', 's', 0}
	sum := crc32.ChecksumIEEE(b)
	return append(append(b, byte(sum), byte(sum>>8)), plain[10:]...)
}
