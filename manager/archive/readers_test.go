package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	gowarc "github.com/internetarchive/gowarc"
	"github.com/internetarchive/gowarc/cmd/warc/verify"

	"shoal/channel"
	"shoal/manager/archive/pages"
)

// The tests of this file have what the archive writes read by programs that are not ours: gowarc of the Internet Archive, and warcio and wabac of
// webrecorder, which come from the npm registry.

// npmFolder is a folder in which packages of the npm registry are installed (see .ci/run).
func npmFolder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("SHOAL_WARCIO")
	if dir != "" {
		return dir
	}
	const why = "SHOAL_WARCIO names no folder: cd FOLDER; npm install warcio@2.4.11 @webrecorder/wabac@2.27.1 fake-indexeddb@6.2.8"
	if os.Getenv("SHOAL_TEST_STRICT") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// node runs a script of testdata where the npm packages are.
func node(t *testing.T, script string, args ...string) string {
	t.Helper()
	dir := npmFolder(t)
	raw, err := os.ReadFile(filepath.Join("testdata", script))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "shoal-"+script)
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", append([]string{path}, args...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%.4000s\n%.4000s", script, err, out.String(), problems.String())
	}
	return out.String()
}

// visit is a capture, and what a reader must make of it.
type visit struct {
	URL       string `json:"url"`
	Timestamp string `json:"timestamp"`
	Status    int    `json:"status"`
	Sha256    string `json:"sha256"`
	Mime      string `json:"mime"`
	What      string `json:"what"` // for people
}

// web is a Web host that answers over HTTP/1.1 and HTTP/2, to whatever name.
type web struct {
	*httptest.Server
	client map[bool]*http.Client // by whether HTTP/2 is spoken
}

func newWeb(t *testing.T) *web {
	w := &web{client: map[bool]*http.Client{}}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body := "page " + r.Host + r.URL.String() + " in version " + r.Header.Get("Version") + " " + strings.Repeat("of some length ", 30)
		h := out.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("ETag", `"`+r.Header.Get("Version")+`"`)
		h.Add("Set-Cookie", "a=1")
		h.Add("Set-Cookie", "b=2")
		h.Set("X-Empty", "")
		h.Set("X-Latin", "caf\xe9")
		switch {
		case strings.Contains(r.URL.Path, "moved"):
			h.Set("Location", "/elsewhere")
			out.WriteHeader(http.StatusMovedPermanently)
		case r.Header.Get("If-None-Match") != "":
			out.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(out, body)
	}))
	w.EnableHTTP2 = true
	w.StartTLS()
	t.Cleanup(w.Close)
	for _, h2 := range []bool{false, true} {
		w.client[h2] = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: h2,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, w.Listener.Addr().String())
			},
		}}
	}
	return w
}

// fetch fetches a page as a crawl does; known says that its content is stored.
func (w *web) fetch(t *testing.T, url, version string, h2, known bool) channel.Page {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Version", version)
	if known {
		req.Header.Set("If-None-Match", "x")
	}
	resp, err := w.client[h2].Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if (resp.ProtoMajor == 2) != h2 {
		t.Fatalf("%s came over %s", url, resp.Proto)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "%s %s\r\n", resp.Proto, resp.Status)
	if err := resp.Header.Write(&head); err != nil {
		t.Fatal(err)
	}
	head.WriteString("\r\n")
	p := channel.Page{URL: url, Status: resp.StatusCode, Change: channel.New, Header: head.Bytes(), Body: body, Links: []string{url + "#next"}}
	if len(body) > 0 {
		p.Digest = channel.ContentDigest(body)
	}
	if known {
		p.Change = channel.Unchanged
	}
	return p
}

// crawledWeb makes an archive of two hosts that were crawled four times, one over HTTP/1.1 and one over HTTP/2, in several files: new pages,
// changed ones, unchanged ones by a 304 and by their content, copies, redirects, odd headers; and of two that the crawler itself crawled. It is
// closed.
func crawledWeb(t *testing.T) (*Archive, []visit) {
	t.Helper()
	w := newWeb(t)
	cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)}
	cfg := testConfig(t.TempDir())
	cfg.Clock, cfg.Roll = cl.Now, 32<<10
	a := open(t, cfg)
	var visits []visit
	for gen := channel.Gen(1); gen <= 4; gen++ {
		for id := channel.ID(1); id <= 2; id++ {
			r, got := crawlWeb(t, a, w, cl, id, gen)
			visits = append(visits, got...)
			r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
		}
	}
	visits = append(visits, crawlsInto(t, a, w, cl)...)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return a, visits
}

// crawlWeb crawls one of the hosts: the first over HTTP/1.1, the second over HTTP/2.
func crawlWeb(t *testing.T, a *Archive, w *web, cl *clock, id channel.ID, gen channel.Gen) (*runner, []visit) {
	t.Helper()
	host, h2 := "https://www.site-1.example", false
	if id == 2 {
		host, h2 = "https://Site-2.example:8443", true
	}
	host = strings.ToLower(host)
	signed, body := taskOf(id, gen, host, cl.now.Add(time.Hour))
	if err := a.Deposit(t.Context(), signed, body); err != nil {
		t.Fatal(err)
	}
	c, err := a.Claim(t.Context(), "12D3KooWPeer", signed)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{t, a, "12D3KooWPeer", id, gen, c.Resume.Seq, c.Resume.Head, nil}
	var visits []visit
	add := func(p channel.Page, what string, status int, content []byte) {
		cl.now = cl.now.Add(time.Second)
		p.Fetched = cl.now
		r.put(channel.ChunkBody{Pages: []channel.Page{p}})
		sum := sha256.Sum256(content)
		visits = append(visits, visit{p.URL, cl.now.Format("20060102150405"), status, hex.EncodeToString(sum[:]), "text/html", what})
	}
	for n := range 20 {
		url := fmt.Sprintf("%s/Dir/Page-%d.HTML?z=%d&A=%%2F", host, n, n)
		page := w.fetch(t, url, "1", h2, false)
		switch {
		case gen == 1:
			add(page, "new", 200, page.Body)
		case n%4 == 0:
			add(w.fetch(t, url, "1", h2, true), "not modified", 200, page.Body)
		case n%4 == 1:
			same := page
			same.Change, same.Body = channel.Unchanged, nil
			add(same, "the same content", 200, page.Body)
		case n%4 == 2:
			page.Change = channel.Changed
			add(page, "sent, and the same", 200, page.Body)
		default:
			page = w.fetch(t, url, fmt.Sprint(gen), h2, false)
			page.Change = channel.Changed
			add(page, "changed", 200, page.Body)
		}
	}
	for n := range 9 {
		url := fmt.Sprintf("%s/%d-%d", host, gen, n)
		content := []byte(strings.Repeat("a copy of what many pages say ", 9))
		page := w.fetch(t, url, "1", h2, false)
		page.Body, page.Digest = content, channel.ContentDigest(content)
		add(page, "a copy", 200, content)
		odd := page
		odd.URL, odd.Body = url+"/odd", []byte(fmt.Sprintf("odd \x00\xff\r\n\r\nWARC/1.1\r\n %s", url))
		odd.Header = []byte("HTTP/1.1 200 \r\nno colon\r\nBad name: x\r\nContent-Type: text/html\r\n folded\r\nContent-Encoding: br\r\nTransfer-Encoding: chunked\r\n\r\n")
		odd.Digest = channel.ContentDigest(odd.Body)
		add(odd, "odd headers", 200, odd.Body)
	}
	turns(t, w, host, gen, h2, add)
	// Redirects and pages that were cut off are records like others; wabac follows the ones, and knows nothing of the others.
	moved := w.fetch(t, fmt.Sprintf("%s/moved/%d", host, gen), "1", h2, false)
	cut := w.fetch(t, fmt.Sprintf("%s/cut/%d", host, gen), "1", h2, false)
	cut.Truncated = true
	cl.now = cl.now.Add(time.Second)
	moved.Fetched, cut.Fetched = cl.now, cl.now
	r.put(channel.ChunkBody{Pages: []channel.Page{moved, cut}})
	return r, visits
}

// turns adds a page that changes, is found unchanged before that and after it, and has a copy of its first version: readers must find the version that was meant, and no
// later one.
func turns(t *testing.T, w *web, host string, gen channel.Gen, h2 bool, add func(p channel.Page, what string, status int, content []byte)) {
	t.Helper()
	url := host + "/turns"
	first, second := w.fetch(t, url, "1", h2, false), w.fetch(t, url, "2", h2, false)
	switch gen {
	case 1:
		add(first, "a first version", 200, first.Body)
	case 2:
		add(w.fetch(t, url, "1", h2, true), "a first version, not modified", 200, first.Body)
		copied := first
		copied.URL = host + "/copied"
		add(copied, "a copy of a first version", 200, first.Body)
	case 3:
		second.Change = channel.Changed
		add(second, "a second version", 200, second.Body)
	default:
		add(w.fetch(t, url, "2", h2, true), "a second version, not modified", 200, second.Body)
	}
}

// TestGowarc has the files verified, and read, by gowarc of the Internet Archive.
func TestGowarc(t *testing.T) {
	t.Parallel()
	a, _ := crawledWeb(t)
	kinds := map[string]int{}
	for _, name := range warcFiles(t, a) {
		v, err := verify.ValidateWARCFile(name)
		if err != nil || !v.Valid || v.ErrorsCount > 0 || !v.AllRecordsRead || v.RecordCount == 0 {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		readWithGowarc(t, name, kinds)
	}
	if kinds["warcinfo"] < 3 || kinds["response"] == 0 || kinds["revisit"] == 0 || kinds["metadata"] < kinds["response"] || kinds["h2"] == 0 || kinds["http/1.1"] == 0 {
		t.Errorf("records %v", kinds)
	}
}

// TestGowarcReadsExports has exports verified and read by gowarc: of what this version wrote, and of what 0.1.0 wrote.
func TestGowarcReadsExports(t *testing.T) {
	t.Parallel()
	a, _ := crawledWeb(t)
	dir := t.TempDir()
	unpackOld(t, filepath.Join(oldData, "closed.tar.gz"), dir)
	old := testConfig(filepath.Join(dir, "archive"))
	old.Clock = (&clock{time.Unix(1_700_040_000, 0).UTC()}).Now
	for name, cfg := range map[string]Config{"now": a.cfg, "0.1.0": old} {
		file := filepath.Join(t.TempDir(), "export.warc.gz")
		var out bytes.Buffer
		if _, err := open(t, cfg).Export(t.Context(), &out, ExportOptions{Format: FormatWARC}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := verify.ValidateWARCFile(file)
		if err != nil || !v.Valid || v.ErrorsCount > 0 || !v.AllRecordsRead || v.RecordCount == 0 {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		kinds := map[string]int{}
		readWithGowarc(t, file, kinds)
		if kinds["warcinfo"] != 1 || kinds["response"] < 5 || kinds["response"]+kinds["metadata"]+1 != v.RecordCount {
			t.Errorf("%s: records %v of %d", name, kinds, v.RecordCount)
		}
	}
}

// readWithGowarc counts the records of a file, and the protocols of its responses.
func readWithGowarc(t *testing.T, name string, kinds map[string]int) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gowarc.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		rec, err := r.ReadRecord()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s, record %d: %v", name, n, err)
		}
		kind := rec.Header.Get("WARC-Type")
		kinds[kind]++
		if (n == 0) != (kind == "warcinfo") {
			t.Errorf("%s: record %d is a %s", name, n, kind)
		}
		block, err := io.ReadAll(rec.Content)
		if err != nil {
			t.Fatal(err)
		}
		if got := rec.Header.Get("Content-Length"); got != fmt.Sprint(len(block)) {
			t.Errorf("%s, record %d: Content-Length %s of %d bytes", name, n, got, len(block))
		}
		if kind == "response" {
			kinds[rec.Header.Get("WARC-Protocol")]++
		}
		if strings.Contains(string(block), "12D3Koo") || rec.Header.Get("WARC-IP-Address") != "" {
			t.Errorf("%s, record %d names the volunteer", name, n)
		}
		if err := rec.Content.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWarcio has the files read, and their digests checked, by warcio; and asks it by which keys it looks for URLs.
func TestWarcio(t *testing.T) {
	t.Parallel()
	npmFolder(t)
	a, visits := crawledWeb(t)
	urls := []string{
		"https://www.example.org/Dir/INDEX.html", "http://www2.example.org/", "http://wwww.example.org/", "http://www.org/", "http://example.org:8080/a?c=2&B=1&a",
		"http://127.0.0.1:7780/x", "http://[2001:db8::1]:81/x", "http://example.org/a%2Fb?u=http://x/?y", "http://example.org/?b=%26&a=1&a=0",
		"https://xn--bcher-kva.example/%C3%9C", "http://example.org/?&&b&a", "http://www/", "http://example.org/a;b=c,d?e=%E2%82%AC+f",
	}
	for _, v := range visits {
		urls = append(urls, v.URL)
	}
	lines := strings.Split(node(t, "warcio.mjs", append(append(warcFiles(t, a), "--"), urls...)...), "\n")
	kinds := map[string]int{}
	for _, name := range warcFiles(t, a) {
		readWithGowarc(t, name, kinds)
	}
	if want := fmt.Sprintf("warcinfo %d, response %d, revisit %d, metadata %d", kinds["warcinfo"], kinds["response"], kinds["revisit"], kinds["metadata"]); lines[0] != want {
		t.Errorf("warcio read %s, gowarc %s", lines[0], want)
	}
	for n, url := range urls {
		canonical, err := channel.Canonical(url)
		if err != nil {
			t.Fatal(err)
		}
		if got := pages.SearchableURL(canonical); got != lines[n+1] {
			t.Errorf("%s: our key is %q, warcio looks for %q", url, got, lines[n+1])
		}
	}
}

// TestWabacReplays has wabac load the index and replay every capture: content, status and type are those of the page as it was.
func TestWabacReplays(t *testing.T) {
	t.Parallel()
	npmFolder(t)
	closed, visits := crawledWeb(t)
	if len(visits) < 300 {
		t.Fatalf("%d captures", len(visits))
	}
	a := open(t, closed.cfg)
	dir := t.TempDir()
	for _, name := range warcFiles(t, a) {
		if err := os.Link(name, filepath.Join(dir, filepath.Base(name))); err != nil {
			t.Fatal(err)
		}
	}
	var index bytes.Buffer
	if err := a.CDXJ(t.Context(), &index, pages.Index{}); err != nil {
		t.Fatal(err)
	}
	last := ""
	for line := range strings.Lines(index.String()) {
		if line < last {
			t.Errorf("the index is not sorted: %s after %s", line, last)
		}
		last = line
	}
	raw, err := json.Marshal(visits)
	if err != nil {
		t.Fatal(err)
	}
	wants := filepath.Join(t.TempDir(), "visits.json")
	coarse := regexp.MustCompile(`(?m)^(\S+ \d{14})\d{3} `).ReplaceAll(index.Bytes(), []byte("$1 ")) // as other programs write indexes of the files
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "index.cdxj"), index.Bytes(), 0o600), os.WriteFile(filepath.Join(dir, "coarse.cdxj"), coarse, 0o600), os.WriteFile(wants, raw, 0o600)); err != nil {
		t.Fatal(err)
	}
	files := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer files.Close()
	for _, name := range []string{"index.cdxj", "coarse.cdxj"} {
		out := node(t, "wabac.mjs", files.URL+"/"+name, wants)
		if want := fmt.Sprintf("replayed %d\n", len(visits)); out != want {
			t.Errorf("%s: wabac %s, want %s", name, out, want)
		}
	}
}
