package crawl

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
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
