package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gowarc "github.com/internetarchive/gowarc"

	"shoal/channel"
	"shoal/manager/archive/warc"
)

// sample makes an archive with every kind of record, over several files.
func sample(t *testing.T) *Archive {
	cl := &clock{time.Date(2026, 5, 1, 12, 0, 0, 123456000, time.UTC)}
	cfg := testConfig(t.TempDir())
	cfg.Clock = cl.Now
	cfg.Roll = 4 << 10
	a := open(t, cfg)
	for gen := range 6 {
		r, _ := start(t, a, "12D3KooWPeer", 1, channel.Gen(gen+1))
		not := r.page("/same", "same "+long, channel.Unchanged)
		not.Body, not.Status, not.Digest = nil, 304, 0
		if gen == 0 {
			not = r.page("/same", "same "+long, channel.New)
		}
		odd := r.page("/odd", "odd \x00\xff\r\n\r\nWARC/1.1\r\n "+fmt.Sprint(gen), channel.Changed)
		odd.Header = []byte("rubbish\xff\r\nno colon\r\nBad name: x\r\n")
		moved := channel.Page{URL: r.url("/moved"), Fetched: cl.now, Status: 301, Change: channel.New, Header: []byte("HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\n")}
		cut := r.page("/cut", strings.Repeat(fmt.Sprint("cut ", gen), 9999), channel.Changed)
		cut.Truncated = true
		r.put(channel.ChunkBody{Pages: []channel.Page{not, odd, moved, cut, r.page(fmt.Sprint("/copy", gen), "same "+long, channel.New)}})
		r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
		cl.now = cl.now.Add(time.Hour)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestGowarc has the files read by a library that is not ours.
func TestGowarc(t *testing.T) {
	a := sample(t)
	kinds := map[string]int{}
	for _, name := range warcFiles(t, a) {
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
				break
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
				_, payload, _ := bytes.Cut(block, []byte("\r\n\r\n"))
				if got := rec.Header.Get("WARC-Payload-Digest"); got != warc.Digest(sha256.Sum256(payload)) {
					t.Errorf("%s, record %d: digest %s is not of the payload", name, n, got)
				}
			}
			if strings.Contains(string(block), "12D3Koo") || rec.Header.Get("WARC-IP-Address") != "" {
				t.Errorf("%s, record %d names the volunteer", name, n)
			}
			if err := rec.Content.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := map[string]int{"response": 1 + 6 + 6 + 6, "revisit": 5 + 6, "metadata": 1 + 6 + 6 + 6}
	for k, n := range want {
		if kinds[k] != n {
			t.Errorf("%d %s records, want %d (all: %v)", kinds[k], k, n, kinds)
		}
	}
	if kinds["warcinfo"] < 2 {
		t.Errorf("warcinfo: %v", kinds)
	}
}

// TestWarcio has the files read, and their digests checked, by warcio of the npm registry, where SHOAL_WARCIO names a folder in which
// it is installed (npm install warcio).
func TestWarcio(t *testing.T) {
	dir := os.Getenv("SHOAL_WARCIO")
	if dir == "" {
		t.Skip("SHOAL_WARCIO is not set: no folder with node_modules/warcio")
	}
	script, err := os.ReadFile("testdata/warcio.mjs")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "shoal-check.mjs")
	if err := os.WriteFile(path, script, 0o644); err != nil {
		t.Fatal(err)
	}
	a := sample(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", append([]string{path}, warcFiles(t, a)...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "response 19, revisit 11, metadata 19") {
		t.Errorf("warcio read %s", out)
	}
}
