package archive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/standstill"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/warc"
)

func ask(t *testing.T, s *httptest.Server, path string, q ...string) (*http.Response, string) {
	t.Helper()
	v := url.Values{}
	for n := 0; n < len(q); n += 2 {
		v.Set(q[n], q[n+1])
	}
	r, err := s.Client().Get(s.URL + path + "?" + v.Encode())
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return r, string(b)
}

// TestHTTPFeed follows the feed as an indexer does: in parts, over a restart of its own, and waiting for what comes.
func TestHTTPFeed(t *testing.T) {
	a := exported(t)
	s := httptest.NewServer(a.Handler())
	defer s.Close()
	var seen []string
	cursor := ""
	read := func(q ...string) int {
		r, body := ask(t, s, "/changes", append(q, "cursor", cursor, "limit", "2", "text", "1")...)
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Fatalf("changes: %s %s", r.Status, body)
		}
		n := 0
		for sc := bufio.NewScanner(strings.NewReader(body)); sc.Scan(); n++ {
			var l Line
			if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
				t.Fatal(err)
			}
			seen = append(seen, l.Event+" "+strings.TrimPrefix(l.URL, "http://site-1.example"))
			if l.Event == "created" && (l.Text == "" || len(l.Links) == 0) {
				t.Errorf("no text or links: %+v", l)
			}
		}
		cursor = r.Header.Get(CursorHeader)
		return n
	}
	for read() > 0 {
	}
	if got, want := strings.Join(seen, "; "), "created /; created /copy; created /old; changed /; gone /old"; got != want {
		t.Errorf("saw %q, want %q", got, want)
	}
	still := standstill.Of(os.Getpid())
	got := make(chan int)
	go func() { got <- read("wait", maxHTTPWait.String()) }()
	r, _ := start(t, a, "p", 2, 1)
	p := r.page("/late", "late "+long, channel.New)
	r.put(channel.ChunkBody{Pages: []channel.Page{p}})
	if n := <-got; n != 1 || still.For() >= maxHTTPWait { // it did not wait until its time was up
		t.Errorf("waited for %d changes, %v", n, still.For())
	}
	if n := read("wait", "1ms"); n != 0 {
		t.Errorf("%d changes after all", n)
	}
}

func TestHTTP(t *testing.T) {
	a := exported(t)
	s := httptest.NewServer(a.Handler())
	defer s.Close()
	for _, c := range []struct {
		path string
		q    []string
		code int
	}{
		{"/changes", []string{"cursor", "rubbish"}, 400}, {"/changes", []string{"limit", "0"}, 400}, {"/changes", []string{"wait", "long"}, 400},
		{"/page", []string{"url", "ftp://x/"}, 400}, {"/page", []string{"url", "http://never.example/"}, 404},
		{"/page", []string{"url", "http://site-1.example/", "at", "yesterday"}, 400}, {"/export", []string{"format", "pdf"}, 400},
		{"/export", []string{"since", "x"}, 400}, {"/cdx", []string{"url", "::"}, 400}, {"/cdx", []string{"keys", "x"}, 400}, {"/cdx", []string{"prefix", "1"}, 400},
		{"/export", []string{"format", "text", "body", "1"}, 400}, {"/export", []string{"format", "warc", "body", "1"}, 200}, {"/export", []string{"body", "1"}, 200}, {"/nothing", nil, 404},
	} {
		if r, body := ask(t, s, c.path, c.q...); r.StatusCode != c.code {
			t.Errorf("%s %v: %s, want %d: %s", c.path, c.q, r.Status, c.code, body)
		}
	}
	r, body := ask(t, s, "/page", "url", "http://SITE-1.example:80/")
	if !strings.HasSuffix(body, "changed") || r.Header.Get("Content-Type") != "text/html; charset=utf-8" || r.Header.Get("Content-Security-Policy") != "sandbox" {
		t.Errorf("page: %v %.40q", r.Header, body)
	}
	r, body = ask(t, s, "/export", "format", "warc")
	if n := scanBytes(t, body); n != 9 || r.Trailer.Get(CursorHeader) == "" {
		t.Errorf("export: %d records, trailer %v", n, r.Trailer)
	}
	_, body = ask(t, s, "/cdx", "url", "http://site-1.example/", "prefix", "1")
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "example,site-1)/ 2") || !strings.Contains(lines[2], `"mime":"warc/revisit"`) {
		t.Errorf("CDX:\n%s", body)
	}
	_, body = ask(t, s, "/cdx", "url", "http://site-1.example/")
	if n := strings.Count(body, "\n"); n != 2 {
		t.Errorf("CDX of one page:\n%s", body)
	}
}

// A page was not there before there were pages: a year that was mistyped is no way to its last version.
func TestGetAtATimeBefore1970(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "p", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/x", long, channel.New)}, Report: r.report(channel.Updated)})
	for _, day := range []string{"0206-05-01", "1969-12-31", "0001-01-02"} {
		at, err := ParseTime(day)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := a.Get(t.Context(), r.url("/x"), at); !errors.Is(err, ErrNotFound) {
			t.Errorf("at %s there is a page of %v, %v", day, c.Fetched, err)
		}
	}
}

// TestPageHasItsOwnType asks for pages of which a browser knows by the header alone how to read them, and for two whose header names no type.
func TestPageHasItsOwnType(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	r, _ := start(t, a, "p", 1, 1)
	var all []channel.Page
	for path, own := range map[string]string{"/thai": "text/plain; charset=windows-874", "/none": "", "/odd": "a type; charset=utf-8"} {
		p := r.page(path, path+" \xa1\xd2 "+long, channel.New)
		p.Header = []byte("HTTP/1.1 200 OK\r\nContent-Type: " + own + "\r\n\r\n")
		if own == "" {
			p.Header = []byte("HTTP/1.1 200 OK\r\nServer: x\r\n\r\n")
		}
		all = append(all, p)
	}
	r.put(channel.ChunkBody{Pages: all, Report: r.report(channel.Updated)})
	r, _ = start(t, a, "p", 1, 2) // whose header a visit does not repeat
	r.put(channel.ChunkBody{Pages: []channel.Page{{URL: r.url("/thai"), Status: 304, Change: channel.Unchanged, Fetched: a.cfg.Clock()}}, Report: r.report(channel.Updated)})
	s := httptest.NewServer(a.Handler())
	defer s.Close()
	for path, want := range map[string]string{"/thai": "text/plain; charset=windows-874", "/none": "application/octet-stream", "/odd": "application/octet-stream"} {
		res, body := ask(t, s, "/page", "url", r.url(path))
		if got := res.Header.Get("Content-Type"); got != want || !strings.HasPrefix(body, path+" \xa1\xd2") {
			t.Errorf("%s: type %q, want %q; %.20q", path, got, want, body)
		}
	}
}

func scanBytes(t *testing.T, s string) (n int) {
	t.Helper()
	sc := warc.NewScanner(bytes.NewReader([]byte(s)))
	for sc.Scan() {
		n++
	}
	if sc.Err() != nil {
		t.Error(sc.Err())
	}
	return n
}

func TestParseTime(t *testing.T) {
	for in, want := range map[string]string{
		"2026-05-01T12:00:00Z": "2026-05-01T12:00:00.999999Z", "20260501120000": "2026-05-01T12:00:00.999999Z", "2026-05-01 12:00": "2026-05-01T12:00:59.999999Z",
		"2026-05-01": "2026-05-01T23:59:59.999999Z", "2026-05-01T12:00:00+02:00": "2026-05-01T10:00:00.999999Z", "2026-05-01T12:00:00.5Z": "2026-05-01T12:00:00.5Z",
		"20260501120000123": "2026-05-01T12:00:00.123999Z",
	} {
		if got, err := ParseTime(in); err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%q is %v, %v, want %s", in, got, err, want)
		}
	}
}

// A page is found at the time that the index gives for it, which has less of a fraction than the page's own.
func TestPageAtItsTimeInTheIndex(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Clock = (&clock{time.Date(2026, 5, 6, 7, 8, 9, 700_123_000, time.UTC)}).Now
	a := open(t, cfg)
	s := httptest.NewServer(a.Handler())
	defer s.Close()
	r, _ := start(t, a, "12D3KooWPeer", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", "a page", channel.New)}})
	for keys, want := range map[string]string{"webrecorder": "20260506070809700", "surt": "20260506070809"} {
		_, body := ask(t, s, "/cdx", "keys", keys)
		line := strings.Fields(body)
		if len(line) < 2 || line[1] != want {
			t.Fatalf("index: %q", body)
		}
		if res, page := ask(t, s, "/page", "url", "http://site-1.example/", "at", line[1]); res.StatusCode != http.StatusOK {
			t.Errorf("at %s: %s %s", line[1], res.Status, page)
		}
	}
}

// TestIndexKeys asks for the index by both families of keys: pywb looks for a directory without the slash at its end.
func TestIndexKeys(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	s := httptest.NewServer(a.Handler())
	defer s.Close()
	r, _ := start(t, a, "12D3KooWPeer", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/Dir/", "a directory", channel.New)}})
	for keys, want := range map[string]string{"": "example,site-1)/dir/ ", "webrecorder": "example,site-1)/dir/ ", "surt": "example,site-1)/dir "} {
		if _, body := ask(t, s, "/cdx", "keys", keys); !strings.HasPrefix(body, want) {
			t.Errorf("keys %q: %s", keys, body)
		}
	}
}

// TestIndexIsWhole asks a manager for the index of more captures than were once the most of an answer: without a limit it has all of them, and a larger limit
// holds.
func TestIndexIsWhole(t *testing.T) {
	const n = 100_100
	a := open(t, testConfig(t.TempDir()))
	s := httptest.NewServer(a.Handler())
	defer s.Close()
	r, _ := start(t, a, "12D3KooWPeer", 1, 1)
	r.put(channel.ChunkBody{Pages: []channel.Page{r.page("/", "a page", channel.New)}})
	one, at, b := captureIn(t, a, r.url("/")), time.Now(), a.Batch()
	for i := range n - 1 {
		c, err := ledger.Put(nil, pages.CaptureKey(fmt.Sprintf("%s%d", r.url("/"), i), at), one)
		if err != nil {
			t.Fatal(err)
		}
		b.Add(c...)
		if err := b.FlushFull(); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit string
		want  int
	}{{"", n}, {fmt.Sprint(n - 50), n - 50}, {"7", 7}} {
		if _, body := ask(t, s, "/cdx", "limit", c.limit); strings.Count(body, "\n") != c.want {
			t.Errorf("limit %q: %d lines, want %d", c.limit, strings.Count(body, "\n"), c.want)
		}
	}
}
