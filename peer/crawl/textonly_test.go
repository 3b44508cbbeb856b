package crawl

import (
	"net/http"
	"strings"
	"testing"

	"shoal/channel"
	"shoal/channel/markup"
)

// TestHeaderOfTextSaysWhatItIs crawls a channel of which only the text is kept: the stored header says that it is plain text in UTF-8, and what the
// host said stands beside it. What is sent as it came keeps its header.
func TestHeaderOfTextSaysWhatItIs(t *testing.T) {
	const links = "<a href=/plain>\xcd\xc9\xd2</a><a href=/long></a><a href=/twice></a><p>\xd4\xd2\xd5\xc4 &lt; 3"
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=koi8-r")
		switch r.URL.Path {
		case "/plain":
			h.Set("Content-Type", "text/plain; charset=koi8-r")
		case "/long":
			h.Set("X-Long", strings.Repeat("x", MaxHeader-150))
		case "/twice":
			h["Content-Type"] = []string{"text/html", "text/html; charset=koi8-r"}
		}
		_, _ = w.Write([]byte(links))
	})
	cfg, s := task(t, mux)
	cfg.Body.Settings.TextOnly = true
	run(t, cfg)
	again := cfg
	again.Spool, again.Header.Gen = t.TempDir(), 2
	for _, p := range s.pages() {
		again.Body.Digests = append(again.Body.Digests, channel.PageDigest{URL: channel.URLHash(p.URL), Content: p.Digest})
	}
	known := &sink{}
	again.Sink = known
	run(t, again)
	for _, pages := range [][]channel.Page{s.pages(), known.pages()} {
		if len(pages) != 4 {
			t.Fatalf("%d pages", len(pages))
		}
		for _, p := range pages {
			head, path := string(p.Header), strings.TrimPrefix(p.URL, "http://site.test")
			var types []string
			for line := range strings.SplitSeq(head, "\r\n") {
				if name, value, _ := strings.Cut(line, ": "); strings.EqualFold(name, "content-type") {
					types = append(types, value)
				}
			}
			if path == "/plain" {
				if len(types) != 1 || types[0] != "text/plain; charset=koi8-r" || strings.Contains(head, "X-Archive-Orig-") {
					t.Errorf("what is sent as it came: %q", head)
				}
				continue
			}
			text, _, _ := markup.UTF8(p.Body, strings.Join(types, ", "))
			if p.Change != channel.Unchanged && string(text) != "мир труд < 3" || len(types) != 1 || types[0] != "text/plain; charset=utf-8" {
				t.Errorf("%s: %q with the type %q", path, text, types)
			}
			if path == "/long" != (len(head) < 100) || path != "/long" && !strings.Contains(head, "\r\nX-Archive-Orig-Content-Type: text/html; charset=koi8-r\r\n") || !strings.HasPrefix(head, "HTTP/1.1 200 ") || !strings.HasSuffix(head, "\r\n\r\n") {
				t.Errorf("%s, header: %.300q", path, head)
			}
		}
	}
}
