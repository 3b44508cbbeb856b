package crawl

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// rawSite serves whole responses by path, as they are written.
func rawSite(t *testing.T, answers map[string]string) (Config, *sink) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for br := bufio.NewReader(c); ; {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					answer, ok := answers[r.URL.Path]
					if !ok {
						answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
					}
					if io.WriteString(c, answer); strings.Contains(answer, "Connection: close") {
						return
					}
				}
			}()
		}
	}()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
	}
	return taskOf(t, "http://site.test", dial)
}

// TestHeadersThatEndInLF: a header may end its lines, or only itself, with LF alone. What comes after it is the body, whole, and what is archived
// is the header and nothing else, with its lines ended as HTTP has it.
func TestHeadersThatEndInLF(t *testing.T) {
	long := strings.Repeat("<p>some text: of a page that is longer than any header may be</p>\n", 6000)
	page := "<a href=/next>x</a>\n\n" + long + "<a href=/last>x</a>"
	for name, ends := range map[string][2]string{"LF": {"\n", "\n"}, "the last one": {"\r\n", "\n"}, "all but the last": {"\n", "\r\n"}, "CRLF": {"\r\n", "\r\n"}} {
		for _, interim := range []string{"", "HTTP/1.1 103 Early Hints\nLink: </x>\n\n"} {
			answer := func(body, more string) string {
				return interim + strings.ReplaceAll(fmt.Sprintf("HTTP/1.1 200 OK|Content-Type: text/html|Content-Length: %d%s|", len(body), more), "|", ends[0]) + ends[1] + body
			}
			robots := "User-agent: *\n\nDisallow: /no\nCrawl-delay: 0\n" + strings.Repeat("# a long file\n", 8000) + "Sitemap: /s.xml\n"
			cfg, s := rawSite(t, map[string]string{
				"/robots.txt": answer(robots, ""), "/": answer(page, "|X-Note: a, b"), "/next": answer("next", ""), "/last": answer("last", "|Connection: close"),
				"/s.xml": answer("<urlset>\n\n"+strings.Repeat("<!-- -->\n", 12000)+"<url><loc>/listed</loc></url></urlset>", ""), "/listed": answer("listed", ""),
			})
			r := run(t, cfg)
			if len(s.pages()) != 4 || r.Errors["sitemap"] > 0 {
				t.Fatalf("%s, interim %q: pages %q, %v", name, interim, s.urls(), r.Errors)
			}
			want := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\nX-Note: a, b\r\n\r\n", len(page))
			for _, p := range s.pages() {
				if p.URL == "http://site.test/" && (string(p.Body) != page || string(p.Header) != want || p.Truncated) {
					t.Errorf("%s, interim %q: body of %d octets, want %d; header %q", name, interim, len(p.Body), len(page), p.Header[:min(len(p.Header), 300)])
				}
			}
		}
	}
}

// TestHeadersAsTheyAreMet: what curl, wget and browsers read is read here: headers with lines that are none, and lengths that say nothing. What is
// archived is a header that strict readers take.
func TestHeadersAsTheyAreMet(t *testing.T) {
	const body = "<p>some text <a href=/x>x</a></p>"
	length := fmt.Sprintf("Content-Length: %d", len(body))
	chunked := func(end string) string { // the body in two chunks
		return fmt.Sprintf("%x%s%s%s%x;x=y%s%s%s0%s%s", 10, end, body[:10], end, len(body)-10, end, body[10:], end, end, end)
	}
	const ok = "HTTP/1.1 200 OK"
	for _, c := range []struct{ name, header, sent, archived string }{ // "|" ends a line
		{"no reason", "HTTP/1.1 200|" + length + "||", body, "HTTP/1.1 200|" + length + "||"},
		{"a short version", "HTTP/1 200 OK||", body, "HTTP/1.0 200 OK||"},
		{"a status line in its own way", "http/1.1\t 200  All  right|" + length + "||", body, "HTTP/1.1 200 All right|" + length + "||"},
		{"empty lines first", "||" + ok + "|" + length + "||", body, ok + "|" + length + "||"},
		{"no space behind the status", "HTTP/1.1 200OK|" + length + "||", body, "HTTP/1.1 200 OK|" + length + "||"},
		{"a mark behind the status", "HTTP/1.1 200: OK|" + length + "||", body, "HTTP/1.1 200 : OK|" + length + "||"},
		{"no version", "HTTP 200 OK||", body, "HTTP/1.0 200 OK||"},
		{"half a version", "HTTP/1. 200 OK||", body, "HTTP/1.0 200 OK||"},
		{"a long version", "HTTP/1.10 200 OK|" + length + "||", body, "HTTP/1.1 200 OK|" + length + "||"},
		{"a byte order mark", "\xef\xbb\xbf" + ok + "|" + length + "||", body, ok + "|" + length + "||"},
		{"a stray line", "x|" + ok + "|" + length + "||", body, ok + "|" + length + "||"},
		{"two status lines", ok + "|" + ok + "|" + length + "||", body, ok + "|" + length + "||"},
		{"a program's warning", ok + "|<br />|<b>Warning</b>: headers|X-A: b|" + length + "||", body, ok + "|X-A: b|" + length + "||"},
		{"names that are none", ok + "|: x|X(A): b|X-\xe9: c| d|X-A : e|" + length + "||", body, ok + "|X-A: e|" + length + "||"},
		{"a folded field", ok + "|X-A: b;|\t c||", body, ok + "|X-A: b; c||"},
		{"a fold of nothing", ok + "| x|" + length + "|  y|X-A: b| |c||", body, ok + "|" + length + "|X-A: b||"},
		{"control characters", ok + "|X-A: b\x00c\rd\x7f|" + length + "||", body, ok + "|X-A: b c d |" + length + "||"},
		{"CR CR LF", ok + "\r|X-A: b\r|" + length + "\r|\r|", body, ok + "|X-A: b|" + length + "||"},
		{"a length twice", ok + "|" + length + "|X-A: b|" + length + "||", body, ok + "|X-A: b|" + length + "||"},
		{"a length twice in a line", fmt.Sprintf(ok+"|Content-Length: %d, %d|X-A: b||", len(body), len(body)), body, ok + "|X-A: b|" + length + "||"},
		{"a length of words", ok + "|Content-Length: long|X-A: b||", body, ok + "|X-A: b||"},
		{"an empty length", ok + "|Content-Length:|X-A: b||", body, ok + "|X-A: b||"},
		{"a length below nothing", ok + "|Content-Length: -1|X-A: b||", body, ok + "|X-A: b||"},
		{"a coding that does nothing", ok + "|Transfer-Encoding: identity|X-A: b||", body, ok + "|X-A: b||"},
		{"a coding that is none", ok + "|Transfer-Encoding: binary|" + length + "||", body, ok + "|" + length + "||"},
		{"a coding that is none, and chunks", ok + "|Transfer-Encoding: binary, chunked||", chunked("\r\n"), ok + "|Transfer-Encoding: chunked||"},
		{"a folded length", fmt.Sprintf(ok+"|Content-Length:| %d|X-A: b||", len(body)), body, ok + "|" + length + "|X-A: b||"},
		{"chunks by a folded field", ok + "|Transfer-Encoding:|\tchunked||", chunked("\r\n"), ok + "|Transfer-Encoding: chunked||"},
		{"chunks in HTTP/1.0", "HTTP/1.0 200 OK|Transfer-Encoding: chunked||", chunked("\r\n"), "HTTP/1.0 200 OK|Transfer-Encoding: chunked||"},
		{"no chunks in HTTP/1.0", "HTTP/1.0 200 OK|Transfer-Encoding: chunked||", body, "HTTP/1.0 200 OK|Transfer-Encoding: chunked||"},
		{"words behind a chunk's size", ok + "|Transfer-Encoding: chunked||", strings.ReplaceAll(chunked("\r\n"), ";x=y", " x"), ok + "|Transfer-Encoding: chunked||"},
		{"a long extension of a chunk", ok + "|Transfer-Encoding: chunked||", strings.ReplaceAll(chunked("\r\n"), ";x=y", ";"+strings.Repeat("x", 10_000)), ok + "|Transfer-Encoding: chunked||"},
		{"chunks", ok + "|Transfer-Encoding: Chunked||", chunked("\r\n"), ok + "|Transfer-Encoding: Chunked||"},
		{"chunks with LF alone", ok + "\nTransfer-Encoding: chunked\n\n", chunked("\n"), ok + "|Transfer-Encoding: chunked||"},
		{"chunked twice", ok + "|Transfer-Encoding: chunked|Transfer-Encoding: chunked||", chunked("\r\n"), ok + "|Transfer-Encoding: chunked||"},
		{"chunks and a length", ok + "|Content-Length: 5|Transfer-Encoding: chunked||", chunked("\r\n"), ok + "|Transfer-Encoding: chunked||"},
		{"chunks and two lengths", ok + "|Content-Length: 5|X-A: b|Content-Length: 6|Transfer-Encoding: chunked||", chunked("\r\n"), ok + "|X-A: b|Transfer-Encoding: chunked||"},
		{"fields after chunks", ok + "|Transfer-Encoding: chunked||", strings.TrimSuffix(chunked("\r\n"), "\r\n") + "X-A: b\r\n\r\n", ok + "|Transfer-Encoding: chunked||"},
		{"a trailer that may not be", ok + "|Trailer: X-A, content-length|Transfer-Encoding: chunked|X-B: c||", chunked("\r\n"), ok + "|Transfer-Encoding: chunked|X-B: c||"},
		{"a folded trailer", ok + "|trailer:| Transfer-Encoding,|\tTrailer|Transfer-Encoding: chunked||", chunked("\r\n"), ok + "|Transfer-Encoding: chunked||"},
		{"nothing after the last chunk", ok + "|Transfer-Encoding: chunked||", strings.TrimSuffix(chunked("\r\n"), "\r\n"), ok + "|Transfer-Encoding: chunked||"},
	} {
		tail := "Connection: close\r\n\r\n"
		header := strings.ReplaceAll(c.header, "|", "\r\n")
		for _, end := range []string{"\r\n", "\n"} { // the empty line
			if h, cut := strings.CutSuffix(header, end+end); cut {
				header = h + end + strings.ReplaceAll(tail, "\r\n", end)
				break
			}
		}
		header = strings.Replace(header, "\r\r\n\r\r\n", "\r\r\nConnection: close\r\r\n\r\r\n", 1)
		cfg, s := rawSite(t, map[string]string{"/": header + c.sent})
		run(t, cfg)
		if len(s.pages()) == 0 {
			t.Errorf("%s: no page", c.name)
		}
		for _, p := range s.pages() {
			if p.URL != "http://site.test/" {
				continue
			}
			got := strings.ReplaceAll(strings.Replace(string(p.Header), "Connection: close\r\n", "", 1), "\r\n", "|")
			if string(p.Body) != body || p.Error != "" || p.Truncated || got != c.archived {
				t.Errorf("%s: body %q, error %q, truncated %v\nheader %q\n  want %q", c.name, p.Body, p.Error, p.Truncated, got, c.archived)
			}
		}
	}
}

// TestTransferCodings: a transfer coding that is a content coding, too, is taken off, before those. What else a body may be coded in is told.
func TestTransferCodings(t *testing.T) {
	const text = "<a href=/next>next</a>"
	chunked := func(b []byte) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(b), b) }
	zipped, twice := gzipped(text), gzipped(string(gzipped(text)))
	for _, c := range []struct{ fields, body, kind string }{
		{"Transfer-Encoding: gzip, chunked|", chunked(zipped), ""}, {"Transfer-Encoding: x-gzip|Content-Length: 5|Transfer-Encoding: Chunked|", chunked(zipped), ""}, {"Transfer-Encoding: GZIP|Content-Length: 5|", string(zipped), ""},
		{"Content-Encoding: br|Transfer-Encoding: gzip, chunked|", chunked(gzipped(string(brotlied(text)))), ""}, {"Transfer-Encoding: gzip, chunked|Content-Encoding: gzip|", chunked(twice), ""},
		{"Transfer-Encoding: gzip, chunked|", chunked([]byte(text)), "encoding"}, {"Transfer-Encoding: compress, chunked|", chunked([]byte(text)), "malformed"}, {"Transfer-Encoding: chunked, gzip|", string(gzipped(chunked([]byte(text)))), "malformed"},
	} {
		cfg, s := rawSite(t, map[string]string{"/": "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n" + strings.ReplaceAll(c.fields, "|", "\r\n") + "\r\n" + c.body})
		r := run(t, cfg)
		p := s.pages()[0]
		if whole := c.kind == ""; (string(p.Body) == text) != whole || whole != (p.Error == "") || !whole && r.Errors[c.kind] != 1 || whole && len(p.Links) != 1 {
			t.Errorf("%s: %q, error %q, %v", c.fields, p.Body, p.Error, r.Errors)
		}
	}
}

// TestRefreshInAHeader: a header that sends browsers on is a link, whatever the page is.
func TestRefreshInAHeader(t *testing.T) {
	page := func(more, body string) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s", len(body), more, body)
	}
	cfg, s := rawSite(t, map[string]string{
		"/": page("Refresh: 0; url=/1\r\nContent-Type: text/html\r\n", "<a href=/2>x</a><a href=/1>x</a>"), "/1": page("refresh: 5;URL='http://site.test/3'\r\n", ""), "/2": page("Refresh: 300\r\n", "<p>"),
		"/3": page("Refresh: 0; url=/4\r\nContent-Type: application/rss+xml\r\n", "<rss><item><link>/5</link></item></rss>"), "/4": page("Refresh: 0;/no\r\nX-Robots-Tag: nofollow\r\n", "x"), "/5": page("", "x"),
	})
	run(t, cfg)
	want := []string{"http://site.test/", "http://site.test/1", "http://site.test/2", "http://site.test/3", "http://site.test/4", "http://site.test/5"}
	if got := slices.Sorted(slices.Values(s.urls())); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestManyInterimResponses: a host may say often that it still works. All that it says before its answer has the bound of one header.
func TestManyInterimResponses(t *testing.T) {
	const interim, page = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage"
	for n, kind := range map[int]string{5: "", 100: "", MaxHeader: "malformed"} {
		cfg, s := rawSite(t, map[string]string{"/": strings.Repeat(interim, n) + page})
		r := run(t, cfg)
		if p := s.pages(); len(p) != 1 || kind == "" && string(p[0].Body) != "page" || kind != "" && r.Errors[kind] == 0 {
			t.Errorf("%d of them: %+v, errors %v", n, p, r.Errors)
		}
	}
	cfg, _ := rawSite(t, map[string]string{"/": strings.Repeat("\r\n", MaxHeader) + page})
	if r := run(t, cfg); r.Errors["header-too-large"] == 0 {
		t.Errorf("empty lines without end: errors %v", r.Errors)
	}
}

// TestBodiesThatDoNotEnd: a body that breaks off is kept as far as it came, and says so.
func TestBodiesThatDoNotEnd(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\n"
	for answer, kind := range map[string]string{
		head + "Content-Length: 9\r\n\r\nsome":                                                       "cut-off",
		head + "Transfer-Encoding: chunked\r\n\r\n4\r\nsome":                                         "cut-off",
		head + "Transfer-Encoding: chunked\r\n\r\n9\r\nsome":                                         "cut-off",
		head + "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n":                                     "cut-off",
		head + "Transfer-Encoding: chunked\r\n\r\n4\r\nsomething\r\n":                                "broken-chunks",
		head + "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n-1\r\n\r\n":                           "broken-chunks",
		head + "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0x4\r\nmore\r\n":                      "broken-chunks",
		head + "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n\r\n\r\n":                             "broken-chunks",
		head + "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n8" + strings.Repeat("0", 20) + "\r\n": "broken-chunks",
	} {
		cfg, s := rawSite(t, map[string]string{"/": answer})
		r := run(t, cfg)
		if p := s.pages(); len(p) != 1 || string(p[0].Body) != "some" || !p[0].Truncated || r.Errors[kind] == 0 {
			t.Errorf("%q: %+v, errors %v; want %s", answer, p, r.Errors, kind)
		}
	}
	for _, answer := range []string{"HTTP/1.1 200 OK\r\nContent-Type: te", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsome", "\r\n\r\n", "hello\r\n\r\n"} {
		cfg, s := rawSite(t, map[string]string{"/": answer + "Connection: close"})
		if run(t, cfg); len(s.pages()) > 1 || len(s.pages()) == 1 && s.pages()[0].Error == "" {
			t.Errorf("%q: %+v", answer, s.pages())
		}
	}
}

// FuzzTidyHeader: the parser takes whatever fields a host sends, once they are tidied.
func FuzzTidyHeader(f *testing.F) {
	f.Add([]byte("Transfer-Encoding: \x11\n\n"))
	f.Add([]byte("Content-Length: 1, 1\r\nA: b\n c\n\n"))
	f.Add([]byte(" x\nTransfer-Encoding: identity\nTransfer-Encoding: chunked\n: x\n\n"))
	f.Add([]byte("Trailer: Content-Length\nTransfer-Encoding: chunked\n\n"))
	f.Fuzz(func(t *testing.T, fields []byte) {
		head, err := tidyHeader(nil, append([]byte("HTTP/1.1 200 OK\n"), fields...))
		if err != nil {
			return
		}
		if _, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), nil); err != nil && !strings.Contains(err.Error(), "transfer encoding") {
			t.Errorf("%q: %v", head, err)
		}
	})
}
