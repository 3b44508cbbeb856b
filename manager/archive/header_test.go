package archive

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"shoal/channel"
)

// TestHeaderIsThePagesOwn has two pages share their bytes and not their headers. The second one is then found not modified: it still has its own header, and not that of the page that
// stored the bytes, also in an export.
func TestHeaderIsThePagesOwn(t *testing.T) {
	a, cl, _ := strangers(t)
	body := strings.Repeat("the same bytes under two addresses ", 30)
	visit := func(r *runner, path, kind string) channel.Page {
		p := r.page(path, body, channel.Changed)
		p.Header = []byte("HTTP/1.1 200 OK\r\nContent-Type: " + kind + "\r\nX-Page: " + path + "\r\n\r\n")
		return p
	}
	cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page {
		return []channel.Page{visit(r, "/a", "text/html; charset=utf-8"), visit(r, "/b", "text/plain; charset=windows-1252")}
	})
	cl.crawl(t, a, "alice", 2, func(r *runner) []channel.Page {
		p := visit(r, "/b", "")
		p.Body, p.Status, p.Change, p.Header = nil, 304, channel.Unchanged, []byte("HTTP/1.1 304 Not Modified\r\n\r\n")
		return []channel.Page{p}
	})
	const url = "http://site-1.example/b"
	const want = "text/plain; charset=windows-1252\r\nX-Page: /b\r\n"
	c, err := a.Get(t.Context(), url, time.Time{})
	if err != nil || string(c.Body) != body || !strings.Contains(string(c.Header), want) {
		t.Errorf("the page has the header %q, %v", c.Header, err)
	}
	var out bytes.Buffer
	if _, err := a.Export(t.Context(), &out, ExportOptions{Format: FormatWARC, Filter: Filter{All: true}}); err != nil {
		t.Fatal(err)
	}
	in, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	if all, own := strings.Count(string(text), "X-Page: "), strings.Count(string(text), "X-Page: /b"); all != 2 || own != 1 {
		t.Errorf("an export of both pages has %d headers, %d of the second page:\n%s", all, own, text)
	}
}

// TestNoContentHasNone has a peer deliver a body with an answer that ends with its header. Readers would take the body for none, and the file for damaged.
func TestNoContentHasNone(t *testing.T) {
	a, cl, _ := strangers(t)
	cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page {
		full, empty := r.page("/full", home, channel.New), r.page("/empty", "", channel.New)
		for _, p := range []*channel.Page{&full, &empty} {
			p.Status, p.Header = 204, []byte("HTTP/1.1 204 No Content\r\nContent-Type: text/html\r\n\r\n")
		}
		return []channel.Page{full, empty}
	})
	if c, err := a.Get(t.Context(), "http://site-1.example/full", time.Time{}); err == nil {
		t.Errorf("an answer without content has %d bytes", len(c.Body))
	}
	if c, err := a.Get(t.Context(), "http://site-1.example/empty", time.Time{}); err != nil || strings.Contains(string(c.Header), "Content-Length") {
		t.Errorf("an answer without content has the header %q, %v", c.Header, err)
	}
}
