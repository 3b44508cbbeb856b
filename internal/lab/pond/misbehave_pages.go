package pond

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// endless answers with responses that never end, or end twice.
func (s *Server) endless(m Mode, conn net.Conn, buf *bufio.ReadWriter, ok, body string) {
	_ = conn.SetDeadline(time.Now().Add(MaxDrip))
	switch m {
	case EndlessChunks:
		fmt.Fprintf(buf, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", ok, len(body), body)
		for err := error(nil); err == nil; {
			_, err = fmt.Fprintf(buf, "1;noise=%s\r\n \r\n", strings.Repeat("z", 100))
		}
	case HugeTrailers:
		fmt.Fprintf(buf, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n", ok, len(body), body)
		for i := range 16 << 10 {
			if _, err := fmt.Fprintf(buf, "X-Filler-%d: %s\r\n", i, strings.Repeat("z", 1000)); err != nil {
				return
			}
		}
		fmt.Fprint(buf, "\r\n")
	case SlowHeaders:
		fmt.Fprint(buf, ok)
		for err := error(nil); err == nil && !hungUp(conn); {
			fmt.Fprint(buf, "X")
			err = buf.Flush()
		}
	case Interim:
		for err := error(nil); err == nil; {
			_, err = fmt.Fprint(buf, "HTTP/1.1 103 Early Hints\r\nLink: </other>; rel=preload\r\n\r\n")
		}
	case TwoLengths:
		fmt.Fprintf(buf, "%sContent-Length: 5\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", ok, len(body), len(body), body)
	}
}

// hungUp waits as long as a slow response does between two bytes, and reports whether the client has hung up meanwhile. A write would find that out two bytes later.
func hungUp(conn net.Conn) bool {
	if err := conn.SetReadDeadline(time.Now().Add(dripEvery)); err != nil {
		return true
	}
	_, err := io.Copy(io.Discard, conn)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// odd answers with pages that are well formed and hostile.
func (s *Server) odd(m Mode, rw http.ResponseWriter, r *http.Request) bool {
	switch m {
	case CookieWall:
		if _, err := r.Cookie("seen"); err == nil {
			return false
		}
		http.SetCookie(rw, &http.Cookie{Name: "seen", Value: strings.Repeat("x", 4000)})
		http.Redirect(rw, r, r.URL.RequestURI(), http.StatusFound)
	case WrongCharset:
		kinds := [...]string{"text/html; charset=utf-16", "text/html; charset=klingon", "text/html; charset=iso-2022-kr", "text/html; charset=utf-7", "text/html; charset=\"", "text/html; charset=gb18030"}
		n := len(r.URL.Path)
		b := fmt.Appendf(nil, "<!DOCTYPE html><meta charset=shift_jis><title>\x1b$)C\x0e\xe4\xf6\xff\xfe</title><a href=\"%sx?\xe4\x80=\x81\">on</a>", r.URL.Path)
		send(rw, kinds[n%len(kinds)], b)
	case RobotsRules:
		var b []byte
		for i := range 20_000 {
			b = fmt.Appendf(b, "<a href=\"/many-%d\">%d</a>\n", i, i)
		}
		send(rw, "text/html", b)
	case SitemapBomb:
		switch r.URL.Path {
		case "/bomb.xml.gz":
			_, body := s.bombs.get(GzipBomb)
			send(rw, "application/gzip", body)
		case "/index.xml":
			var b bytes.Buffer
			b.WriteString("<sitemapindex>")
			for i := range 1000 {
				fmt.Fprintf(&b, "<sitemap><loc>/bomb.xml.gz?%d</loc></sitemap><sitemap><loc>/index.xml?%d</loc></sitemap>", i, i)
			}
			send(rw, "application/xml", b.Bytes())
		default:
			return strings.HasPrefix(r.URL.Path, "/index.xml")
		}
	}
	return true
}
