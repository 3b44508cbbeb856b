package pond

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// raw returns what comes over the wire for one request, up to limit bytes or until the server closes the connection
// or pauses for 300 ms. It waits that long for the first byte too, unless there is to be one.
func raw(t *testing.T, s *Server, path string, limit int, speaks bool) string {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: site-0000.pond.test\r\n\r\n")
	var out bytes.Buffer
	buf := make([]byte, 64<<10)
	for out.Len() < limit {
		patience := 300 * time.Millisecond
		if speaks && out.Len() == 0 {
			patience = time.Minute
		}
		c.SetReadDeadline(time.Now().Add(patience))
		n, err := c.Read(buf)
		out.Write(buf[:n])
		if err != nil {
			var ne net.Error
			if !errors.As(err, &ne) || !ne.Timeout() {
				out.WriteString("<closed>")
			}
			break
		}
	}
	return out.String()
}

// until reads the answer to one request until all the parts have come. Where the server closes the connection "<closed>" comes.
func until(s *Server, path string, parts ...string) func(*testing.T) {
	return func(t *testing.T) {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: site-0000.pond.test\r\n\r\n")
		var out bytes.Buffer
		buf := make([]byte, 64<<10)
		for _, p := range parts {
			for !strings.Contains(out.String(), p) {
				n, err := c.Read(buf)
				out.Write(buf[:n])
				if ne := net.Error(nil); err != nil && (!errors.As(err, &ne) || !ne.Timeout()) {
					out.WriteString("<closed>")
				}
				if err != nil && !strings.Contains(out.String(), p) {
					t.Fatalf("the wire lacks %q: %v, %.300q", p, err, out.String())
				}
			}
		}
	}
}

func TestMisbehaviours(t *testing.T) {
	s, c := serve(t, Config{Seed: 1, Hosts: 1, Pages: 50, Plain: true, Static: true})
	const host = "http://site-0000.pond.test"
	as := func(m Mode) {
		t.Helper()
		if err := s.World().Misbehave("site-0000.pond.test", m); err != nil {
			t.Fatal(err)
		}
	}
	good := string(s.World().AppendPage(nil, 0, 0, Version{Since: s.World().Config().Start}))
	status := func(path string, code int, field, value string) func(*testing.T) {
		return func(t *testing.T) {
			res, _ := get(t, c, host+path)
			if res.StatusCode != code || !strings.Contains(res.Header.Get(field), value) {
				t.Errorf("GET %s: %s, %s: %q", path, res.Status, field, res.Header.Get(field))
			}
		}
	}
	body := func(path string, parts ...string) func(*testing.T) {
		return func(t *testing.T) {
			_, b := get(t, c, host+path)
			for _, p := range parts {
				if !strings.Contains(b, p) {
					t.Errorf("GET %s lacks %q: %.300q", path, p, b)
				}
			}
		}
	}
	wire := func(parts ...string) func(*testing.T) { return until(s, "/", parts...) }
	decoded := func(size int64, coding string, open func(io.Reader) (io.Reader, error)) func(*testing.T) {
		return func(t *testing.T) {
			res, b := get(t, c, host+"/")
			if res.Header.Get("Content-Encoding") != coding {
				t.Errorf("Content-Encoding %q", res.Header.Get("Content-Encoding"))
			}
			r, err := open(strings.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, r)
			if err != nil || n != size {
				t.Errorf("%d bytes became %d, %v; want %d", len(b), n, err, size)
			}
			if size == BombBytes && len(b) > 1<<20 {
				t.Errorf("a bomb of %d bytes is no bomb", len(b))
			}
		}
	}
	gz := func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	br := func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil }
	zs := func(r io.Reader) (io.Reader, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		return d, err
	}
	tests := map[Mode]func(*testing.T){
		SlowLoris: func(t *testing.T) {
			if b := raw(t, s, "/", 1<<20, true); !strings.HasSuffix(b, "\r\n1\r\nx\r\n") {
				t.Errorf("%q", b)
			}
		},
		Silent: func(t *testing.T) {
			if b := raw(t, s, "/", 1<<20, false); b != "" {
				t.Errorf("%q", b)
			}
		},
		EndlessChunks: until(s, "/", "Transfer-Encoding: chunked", "1;noise=zzz"),
		HugeTrailers:  until(s, "/", "\r\n0\r\nX-Filler-0: zzz", "X-Filler-1000: "),
		SlowHeaders:   until(s, "/", "200 OK\r\nContent-Type: text/html\r\n", "X"),
		Interim:       until(s, "/", "103 Early Hints", "\r\n\r\nHTTP/1.1 103 Early Hints"),
		TwoLengths:    until(s, "/", "Content-Length: 5", "Content-Length: 8", "chunked", "\r\n0\r\n\r\n"),
		RobotsDrip:    until(s, "/robots.txt", "200 OK", "\r\n\r\n", "x"),
		CookieWall:    status("/item-7.html", 302, "Set-Cookie", "seen=xxx"),
		WrongCharset:  status("/x", 200, "Content-Type", "iso-2022-kr"),
		NestedBomb:    decoded(int64(NestedBytes>>20*(1<<20/len(encode(Gzip, nil))*len(encode(Gzip, nil)))), "gzip, br", br),
		RobotsRules: func(t *testing.T) {
			body("/robots.txt", "Disallow: *1000000$\n", "Disallow: *1020000$\n")(t)
			body("/", `"/many-0"`, `"/many-19999"`)(t)
		},
		SitemapBomb: func(t *testing.T) {
			body("/robots.txt", "Sitemap: /bomb.xml.gz")(t)
			body("/index.xml?3", "/index.xml?999")(t)
			status("/bomb.xml.gz", 200, "Content-Type", "gzip")(t)
		},
		HangUp:            wire("<closed>"),
		CutOff:            wire("Content-Length: 5", "a link", "<closed>"),
		ShortBody:         wire("Content-Length: 5", "a link", "<closed>"),
		LongBody:          wire("nobody announced"),
		CloseAlways:       wire("Connection: close", "<closed>"),
		BrokenChunks:      wire("not-a-number", "<closed>"),
		MalformedHeaders:  wire("this line is no header", "Content-Length: -7"),
		HugeHeaders:       wire("X-Filler-1023", "<closed>"),
		EndlessRedirects:  status("/redirect?hop=41", 302, "Location", "/redirect?hop=42"),
		RedirectLoop:      status("/right", 301, "Location", "/left"),
		PrivateRedirects:  status("/out-5", 302, "Location", "http://169.254.169.254/"),
		GzipBomb:          decoded(BombBytes, "gzip", gz),
		BrotliBomb:        decoded(BombBytes, "br", br),
		ZstdBomb:          decoded(BombBytes, "zstd", zs),
		Gzip:              decoded(int64(len(good)), "gzip", gz),
		Brotli:            decoded(int64(len(good)), "br", br),
		Zstd:              decoded(int64(len(good)), "zstd", zs),
		BrokenGzip:        status("/", 200, "Content-Encoding", "gzip"),
		Calendar:          body("/calendar/2031/12", "/calendar/2032/01", "/calendar/2031/11", "/calendar/2031/12"),
		Deep:              body("/a/b/", "/a/b/a/a/"),
		Always200:         body("/whatever", "more</a>"),
		TooMany:           status("/", 429, "Retry-After", "5"),
		Unavailable:       status("/", 503, "Retry-After", "5"),
		Forbidden:         status("/", 403, "", ""),
		Challenge:         status("/", 403, "Cf-Mitigated", "challenge"),
		RobotsError:       status("/robots.txt", 500, "", ""),
		RobotsForbidden:   status("/robots.txt", 403, "", ""),
		RobotsTooMany:     status("/robots.txt", 429, "Retry-After", "60"),
		RobotsRedirects:   status("/robots.txt", 301, "Location", "/robots.txt"),
		RobotsGarbage:     body("/robots.txt", "<html>"),
		RobotsDisallowAll: body("/robots.txt", "Disallow: /\n"),
		SitemapInside:     body("/robots.txt", "Sitemap: http://127.0.0.1"),
		RobotsHuge: func(t *testing.T) {
			if _, b := get(t, c, host+"/robots.txt"); len(b) < 2<<20 || !strings.HasSuffix(b, "Disallow: /\n") {
				t.Errorf("%d bytes", len(b))
			}
		},
		ChangingRobots: func(t *testing.T) {
			_, a := get(t, c, host+"/robots.txt")
			_, b := get(t, c, host+"/robots.txt")
			if a == b {
				t.Error("robots.txt does not change")
			}
		},
		Sessions: func(t *testing.T) {
			_, a := get(t, c, host+"/cart")
			_, b := get(t, c, host+"/cart")
			if a == b || !strings.Contains(a, "/cart?sid=") {
				t.Errorf("%q", a)
			}
		},
		Volatile: func(t *testing.T) {
			_, a := get(t, c, host+"/")
			_, b := get(t, c, host+"/")
			if a == b || !strings.HasPrefix(a, good) || len(a) > len(good)+40 {
				t.Errorf("%d bytes, the good page has %d", len(a), len(good))
			}
		},
		InvalidUTF8: func(t *testing.T) {
			if _, b := get(t, c, host+"/"); utf8.ValidString(b) {
				t.Error("valid after all")
			}
		},
		BusyAtFirst: func(t *testing.T) {
			codes := map[int]int{}
			for range 8 {
				res, _ := get(t, c, host+"/")
				codes[res.StatusCode]++
			}
			if codes[200] != 6 || codes[429] != 2 {
				t.Errorf("%v", codes)
			}
		},
		ManyLinks: func(t *testing.T) {
			res, err := c.Get(host + "/")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			n := 0
			for sc := bufio.NewScanner(res.Body); sc.Scan(); n++ {
			}
			if n != ManyLinksCount {
				t.Errorf("%d links", n)
			}
		},
		HugeBody: func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, host+"/", nil)
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if n, err := io.CopyN(io.Discard, res.Body, 8<<20); n != 8<<20 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		},
	}
	for _, m := range Modes() {
		if m.Secure() { // TestHandshakes, TestFrames and TestSecureHosts
			continue
		}
		test := tests[m]
		if test == nil {
			t.Errorf("no test shows what %s does", m)
			continue
		}
		as(m)
		t.Run(string(m), test)
	}
	// CloseAlways is otherwise good, and the host is good again after the mode ends.
	as(CloseAlways)
	body("/", good)(t)
	as("")
	body("/", good)(t)
	if err := s.World().Misbehave("site-0000.pond.test", "dancing"); err == nil || !strings.Contains(err.Error(), "slow-loris") {
		t.Errorf("an unknown mode: %v", err)
	}
}

// TestCodedHostsAreWhole fetches every page of hosts that are good except for their coding or their connections.
func TestCodedHostsAreWhole(t *testing.T) {
	s, c := serve(t, Config{Seed: 1, Hosts: 1, Pages: 20, Plain: true, Static: true, Bad: map[string]Mode{"site-0000.pond.test": Gzip}})
	for p := range 20 {
		res, b := get(t, c, s.World().URL(0, p))
		if n := res.Header.Get("Content-Length"); res.StatusCode != 200 || n != strconv.Itoa(len(b)) {
			t.Errorf("page %d: %s, length %s of %d", p, res.Status, n, len(b))
		}
	}
}

// TestHungUp has a client hang up in the midst of responses that never end, and ask again. The server knows of it before it has sent another byte: no request is beside another.
func TestHungUp(t *testing.T) {
	s, _ := serve(t, Config{Seed: 1, Hosts: 1, Pages: 50, Plain: true, Static: true})
	for _, m := range []Mode{SlowHeaders, SlowLoris, Silent, Interim, EndlessChunks} {
		if err := s.World().Misbehave("site-0000.pond.test", m); err != nil {
			t.Fatal(err)
		}
		before := s.Stats()
		for range 3 {
			if m == Silent {
				raw(t, s, "/", 1, false)
			} else {
				until(s, "/", "HTTP/1.1 ")(t)
			}
		}
		if st := s.Stats(); st.Violated != before.Violated || st.Requests != before.Requests+3 {
			t.Errorf("%s: %d of %d requests were beside others", m, st.Violated-before.Violated, st.Requests-before.Requests)
		}
	}
}
