package archive

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"shoal/channel"
	"shoal/manager/archive/pages"
)

// TestTextOfPagesWhoseTypeIsOdd: what the crawl reads as HTML has its text in the feed, and a plain type, or none, in the index.
func TestTextOfPagesWhoseTypeIsOdd(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "p", 1, 1)
	fields := map[string]string{
		"text/html charset=utf-8": "text/html", "text/html, text/html": "text/html", "html": "text/html", "*/*": "", "unknown/unknown": "",
		"image/png\r\nContent-Type: text/html": "text/html", "Text/HTML; charset=x": "text/html",
	}
	want := map[string]string{}
	var all []channel.Page
	for said, mime := range fields {
		p := r.page(fmt.Sprint("/", len(all)), fmt.Sprintf("<html><title>%d</title><p>мир %s", len(all), long), channel.New)
		p.Header = []byte("HTTP/1.1 200 OK\r\nContent-Type: " + said + "\r\n\r\n")
		want[p.URL] = mime
		all = append(all, p)
	}
	r.put(channel.ChunkBody{Pages: all, Report: r.report(channel.Updated)})
	for n := 1; n > 0; {
		var err error
		if n, err = a.ExtractText(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	changes, _, err := a.Changes(context.Background(), "", 100)
	if err != nil || len(changes) != len(want) {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	for _, c := range changes {
		l, err := a.Line(c, true, false)
		if err != nil || !strings.Contains(l.Text, "мир a page of some length") || l.Mime != want[l.URL] {
			t.Errorf("%s: type %q, want %q; text %.40q, %v", l.URL, l.Mime, want[l.URL], l.Text, err)
		}
	}
	if got := pages.MediaType([]byte("HTTP/1.1 200 OK\r\nContent-Type: a/" + strings.Repeat("b", 200) + "\r\n\r\n")); got != "" {
		t.Errorf("a long type is kept: %q", got)
	}
}
