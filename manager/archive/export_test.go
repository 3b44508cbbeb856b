package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/warc"
)

// exported makes an archive with a page, a copy of it with links of its own, a change and a page that goes.
func exported(t *testing.T) *Archive {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "p", 1, 1)
	doc := "<html lang=en><title>Hello</title><body><p>" + long + "</p></body></html>"
	home, cp, old := r.page("/", doc, channel.New), r.page("/copy", doc, channel.New), r.page("/old", "old "+long, channel.New)
	cp.Links = []string{"http://copied.example/"}
	r.put(channel.ChunkBody{Pages: []channel.Page{home, cp, old}})
	r.put(channel.ChunkBody{Pages: []channel.Page{
		r.page("/", doc+"changed", channel.Changed), {URL: r.url("/old"), Status: 404, Change: channel.Gone, Header: []byte("HTTP/1.1 404 Not Found\r\n\r\n")},
	}, Report: r.report(channel.Updated)})
	return a
}

// TestExportedRecordsHaveTheirOwnIDs exports two pages of the same content that were fetched at the same time, and a third one whose body broke off.
func TestExportedRecordsHaveTheirOwnIDs(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "p", 1, 1)
	var all []channel.Page
	for _, path := range []string{"/", "/same", "/cut", "/slow", "/broken", "/odd"} {
		p := r.page(path, "short", channel.New)
		p.Fetched = a.cfg.Clock().Truncate(time.Second)
		all = append(all, p)
	}
	for n, why := range []string{"", "timeout: too slow", "cut-off: unexpected EOF", "encoding: bad gzip"} {
		all[2+n].Truncated, all[2+n].Error = true, why
	}
	r.put(channel.ChunkBody{Pages: all, Report: r.report(channel.Updated)})
	var file bytes.Buffer
	for range 2 { // whoever joins two exports has two records of each page, and they are the same
		if _, err := a.Export(t.Context(), &file, ExportOptions{Format: FormatWARC}); err != nil {
			t.Fatal(err)
		}
	}
	owner, cut := map[string]string{}, map[string]string{}
	s := warc.NewScanner(&file)
	for s.Scan() {
		f := s.Record()
		id, is := f.Field("WARC-Record-ID"), f.Field("WARC-Type")+" "+f.Field("WARC-Target-URI")
		if was, ok := owner[id]; ok && was != is {
			t.Errorf("%s is the id of %s and of %s", id, was, is)
		}
		owner[id] = is
		if f.Field("WARC-Type") == warc.Response {
			cut[strings.TrimPrefix(f.Field("WARC-Target-URI"), r.url(""))] = f.Field("WARC-Truncated")
		}
	}
	want := map[string]string{"/": "", "/same": "", "/cut": warc.CutLength, "/slow": warc.CutTime, "/broken": warc.CutDisconnect, "/odd": warc.CutUnspecified}
	if s.Err() != nil || !maps.Equal(cut, want) {
		t.Errorf("pages are cut by %q, want %q: %v", cut, want, s.Err())
	}
}

// TestExport writes all formats and reads them back, in one go and in parts, with and without text extraction behind the feed.
func TestExport(t *testing.T) {
	ctx := context.Background()
	a := exported(t)
	for _, extracted := range []bool{false, true} {
		if extracted {
			if s := a.Stats(); s.TextLag != 5 || s.Events != 5 {
				t.Errorf("before extraction: %+v", s)
			}
			for n := 1; n > 0; {
				var err error
				if n, err = a.ExtractText(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if s := a.Stats(); s.TextLag != 0 || s.TextDelay != 0 {
				t.Errorf("after extraction: %+v", s)
			}
		}
		var whole, parts bytes.Buffer
		end, err := a.Export(ctx, &whole, ExportOptions{Format: FormatJSON, Body: true})
		if err != nil {
			t.Fatal(err)
		}
		for cursor, n := "", 0; n < 10; n++ {
			if cursor, err = a.Export(ctx, &parts, ExportOptions{Since: cursor, Format: FormatJSON, Body: true, Limit: 1}); err != nil {
				t.Fatal(err)
			}
			if cursor == end {
				break
			}
		}
		if whole.String() != parts.String() {
			t.Errorf("in parts\n%s\nnot as in one\n%s", parts.String(), whole.String())
		}
		var lines []Line
		for d := json.NewDecoder(&whole); d.More(); {
			var l Line
			if err := d.Decode(&l); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, l)
		}
		if len(lines) != 5 {
			t.Fatalf("%d lines", len(lines))
		}
		if l := lines[0]; l.Event != "created" || l.Title != "Hello" || l.Lang != "en" || !strings.Contains(l.Text, "a page of some length") || len(l.Links) != 2 {
			t.Errorf("first line %+v", l)
		}
		if l := lines[1]; l.URL != "http://site-1.example/copy" || l.Links[0] != "http://copied.example/" || !bytes.Equal(l.Body, lines[0].Body) {
			t.Errorf("copy %+v", l)
		}
		if l := lines[4]; l.Event != "gone" || l.URL != "http://site-1.example/old" || l.Text != "" {
			t.Errorf("last line %+v", l)
		}
	}

	var w bytes.Buffer
	if _, err := a.Export(ctx, &w, ExportOptions{Format: FormatWARC}); err != nil {
		t.Fatal(err)
	}
	s := warc.NewScanner(&w)
	var got []string
	for s.Scan() {
		r := s.Record()
		got = append(got, strings.TrimSpace(r.Field("WARC-Type")+" "+strings.TrimPrefix(r.Field("WARC-Target-URI"), "http://site-1.example")))
		if h, body := r.HTTP(); r.Field("WARC-Type") == "response" && warc.Field(h, "Content-Length") != fmt.Sprint(len(body)) {
			t.Errorf("header %q of %d bytes", h, len(body))
		}
	}
	if want := "warcinfo; response /; metadata /; response /copy; metadata /copy; response /old; metadata /old; response /; metadata /"; s.Err() != nil || strings.Join(got, "; ") != want {
		t.Errorf("WARC export %v, %v", got, s.Err())
	}
	var txt bytes.Buffer
	if _, err := a.Export(ctx, &txt, ExportOptions{Format: FormatText}); err != nil || strings.Count(txt.String(), "http://site-1.example") != 4 {
		t.Errorf("text export %q, %v", txt.String(), err)
	}
	if _, err := a.Export(ctx, &txt, ExportOptions{Format: "pdf"}); !errors.Is(err, ErrFormat) {
		t.Errorf("unknown format: %v", err)
	}
	if _, err := a.Export(ctx, &txt, ExportOptions{Format: FormatJSON, Since: "rubbish"}); !errors.Is(err, ErrCursor) {
		t.Errorf("bad cursor: %v", err)
	}
	if c, err := a.Get(ctx, "http://site-1.example/copy", time.Time{}); err != nil || len(c.Links) != 1 {
		t.Errorf("get of a copy: links %v, %v", c.Links, err)
	}
}

// failing fails after some bytes.
type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errDisk
	}
	return len(b), nil
}

// TestExportBroken goes on after a receiver that hung up, with what it has not got whole.
func TestExportBroken(t *testing.T) {
	ctx := context.Background()
	a := exported(t)
	var whole bytes.Buffer
	if _, err := a.Export(ctx, &whole, ExportOptions{Format: FormatJSON}); err != nil {
		t.Fatal(err)
	}
	half := whole.Len() / 2
	next, err := a.Export(ctx, &failing{half}, ExportOptions{Format: FormatJSON})
	if !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	var rest bytes.Buffer
	if _, err := a.Export(ctx, &rest, ExportOptions{Format: FormatJSON, Since: next}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(whole.String(), rest.String()) || rest.Len() < half {
		t.Errorf("the rest is %d bytes of %d", rest.Len(), whole.Len())
	}
}
