package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/peer/crawl"
)

// oddAnswer is what a host sends, and what a reader of the archive makes of it.
type oddAnswer struct {
	head string // "|" ends a line
	sent string // "": the page
	mime string // that is replayed
}

// oddAnswers are headers as they are met (see TestHeadersAsTheyAreMet of package crawl), by path.
func oddAnswers(t *testing.T) map[string]oddAnswer {
	t.Helper()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(z, oddPage("/zipped")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	const ok, html = "HTTP/1.1 200 OK", "|Content-Type: text/html; charset=utf-8"
	chunks := oddPage("/chunks")
	chunks = fmt.Sprintf("a;x=y\n%s\n%x\n%s\n0\n\n", chunks[:10], len(chunks)-10, chunks[10:])
	return map[string]oddAnswer{
		"/": {ok + html, "", "text/html"}, "/lower": {"http/1.1\t 200  All  right" + html, "", "text/html"}, "/bare": {"HTTP 200" + html, "", "text/html"},
		"/warning": {"\xef\xbb\xbf" + ok + "|<br />|<b>Warning</b>: headers|: x|X(A): b" + html, "", "text/html"}, "/fold": {ok + "|X-A: b;|\t c|Content-Type:| text/html|X-B: c", "", "text/html"},
		"/control": {ok + "|X-A: b\x00c\rd\x7f|X-Latin: caf\xe9|X-Empty:" + html, "", "text/html"}, "/status": {ok + "|" + ok + html, "", "text/html"}, "/tab": {ok + "|Content-Type:\ttext/html\t", "", "text/html"},
		"/space": {ok + "|Content-Type: text/html charset=utf-8", "", "text/html charset=utf-8"}, "/word": {ok + "|Content-Type: html", "", "html"},
		"/cookies": {ok + "|Set-Cookie: a=1|Set-Cookie: b=2|ETag: W/\"x\"|X-Archive-Orig-Content-Length: 3" + html, "", "text/html"},
		"/zipped":  {ok + "|Content-Encoding: gzip" + html, zipped.String(), "text/html"}, "/chunks": {ok + "|Transfer-Encoding: binary, chunked" + html, chunks, "text/html"},
		"/length": {ok + "|Content-Length: long|Content-Length: -1" + html, "", "text/html"}, "/old": {"HTTP/1.0 200 " + html, "", "text/html"},
		"/moved": {"HTTP/1.1 301 |Location: /lower", " ", ""}, "/cut": {ok + "|Content-Length: 99999" + html, "", ""},
	}
}

func oddPage(path string) string {
	return fmt.Sprintf("<html><title>%s</title>\x00\xff\r\n\r\nWARC/1.1\r\n%s</html>", path, strings.Repeat("<p>some text of the page "+path, 9))
}

// oddHost answers with them, and gives its address. The first page links to all others.
func oddHost(t *testing.T) (addr string, answers map[string]oddAnswer, front string) {
	t.Helper()
	answers = oddAnswers(t)
	front = oddPage("/")
	for _, path := range slices.Sorted(maps.Keys(answers)) {
		front += "<a href=" + path + ">x</a>"
	}
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		answer, ok := answers[r.URL.Path]
		sent := answer.sent
		switch {
		case !ok:
			answer.head = "HTTP/1.1 404 Not Found"
		case r.URL.Path == "/":
			sent = front
		case sent == "":
			sent = oddPage(r.URL.Path)
		}
		_, _ = io.WriteString(conn, strings.ReplaceAll(answer.head+"|Connection: close||", "|", "\r\n")+sent) // the crawl may be gone
	}))
	t.Cleanup(host.Close)
	return host.Listener.Addr().String(), answers, front
}

// crawlsInto has the crawler itself crawl two hosts into an archive, each twice: one that sends odd headers, and over HTTP/2 one of which the text
// alone is kept. It gives the captures.
func crawlsInto(t *testing.T, a *Archive, w *web, cl *clock) (visits []visit) {
	t.Helper()
	addr, answers, front := oddHost(t)
	for gen := channel.Gen(1); gen <= 2; gen++ {
		odd := crawlInto(t, a, cl, crawl.Config{Header: channel.Header{Channel: 3, Gen: gen, Host: "http://odd.example"}}, addr)
		for _, v := range odd {
			path := strings.TrimPrefix(v.URL, "http://odd.example")
			content := oddPage(path)
			if path == "/" {
				content = front
			}
			if v.Mime = answers[path].mime; v.Mime != "" {
				visits = append(visits, v.of(200, content))
			}
		}
		if len(odd) != len(answers) {
			t.Errorf("%d pages of the host with odd headers, want %d", len(odd), len(answers))
		}
		cfg := crawl.Config{Header: channel.Header{Channel: 4, Gen: gen, Host: "https://example.com"}, Roots: x509.NewCertPool()}
		cfg.Roots.AddCert(w.Certificate())
		cfg.Body.Settings.TextOnly = true
		text := crawlInto(t, a, cl, cfg, w.Listener.Addr().String())
		for _, v := range text {
			v.Mime = "text/plain"
			visits = append(visits, v.of(200, "page example.com/ in version"+strings.Repeat(" of some length", 30)))
		}
		if len(text) != 1 {
			t.Errorf("%d pages of the host whose text is kept", len(text))
		}
	}
	return visits
}

// of says what a capture is to be replayed as.
func (v visit) of(status int, content string) visit {
	sum := sha256.Sum256([]byte(content))
	v.Status, v.Sha256 = status, hex.EncodeToString(sum[:])
	return v
}

// stamping puts chunks into an archive, whose clock is not the crawl's, and notes what was fetched when.
type stamping struct {
	*runner
	cl     *clock
	visits []visit
}

func (s *stamping) Put(_ context.Context, raw []byte, _ bool) error {
	b, err := channel.ParseChunkBody(raw)
	if err != nil {
		return err
	}
	for i := range b.Pages {
		p := &b.Pages[i]
		s.cl.now = s.cl.now.Add(time.Second)
		p.Fetched = s.cl.now
		if p.Status != http.StatusNotFound {
			s.visits = append(s.visits, visit{URL: p.URL, Timestamp: s.cl.now.Format("20060102150405"), What: fmt.Sprintf("crawled, %v", p.Change)})
		}
	}
	s.send(b)
	return nil
}

// crawlInto has one host crawled with what the archive knows of it.
func crawlInto(t *testing.T, a *Archive, cl *clock, cfg crawl.Config, addr string) []visit {
	t.Helper()
	k, err := a.Known(t.Context(), cfg.Header.Channel, cl.now)
	if err != nil {
		t.Fatal(err)
	}
	b, h := &cfg.Body, &cfg.Header
	b.Scope = channel.Scope{Kind: channel.WholeHost, Host: h.Host}
	b.Seeds, b.Digests, b.Validators, b.Contact = []string{h.Host + "/"}, k.Digests, k.Validators, "https://example.org/"
	raw := b.Marshal()
	h.Network, h.Pages, h.Budget, h.Issued, h.Latest, h.Archive = [32]byte{1}, 50, 100, cl.now, cl.now.Add(time.Hour), "archive"
	h.BodySHA256, h.BodyBytes = sha256.Sum256(raw), len(raw)
	signed := channel.Signed{Raw: h.Marshal(), Sig: []byte("good"), Delegation: []byte("d")}
	if err := a.Deposit(t.Context(), signed, raw); err != nil {
		t.Fatal(err)
	}
	c, err := a.Claim(t.Context(), "12D3KooWPeer", signed)
	if err != nil || c.Status != lease.Granted {
		t.Fatalf("%v, %v", c.Status, err)
	}
	sink := &stamping{runner: &runner{t, a, "12D3KooWPeer", h.Channel, h.Gen, c.Resume.Seq, c.Resume.Head, nil}, cl: cl}
	cfg.Resume, cfg.Sink, cfg.Spool, cfg.UserAgent, cfg.Peer, cfg.Unpaced = c.Resume, sink, t.TempDir(), "Shoal/test (+http://contact.test/)", "12D3KooWPeer", true
	cfg.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	if _, err := crawl.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return sink.visits
}
