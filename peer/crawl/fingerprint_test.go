package crawl

import (
	"net/http"
	"strings"
	"testing"

	"shoal/channel"
)

// TestFingerprint has a crawl and an archive compute the fingerprint of the same bodies.
func TestFingerprint(t *testing.T) {
	types := map[string]string{"/": "text/html; charset=utf-8", "/latin": "text/html; charset=iso-8859-1", "/plain": "text/plain", "/none": "", "/xhtml": "application/xhtml+xml"}
	body := `<!DOCTYPE html><title>t</title><script>not text</script><p>` + strings.Repeat("some words of a text, ", 50) + "\xe9</p>" +
		`<a href="/latin">l</a><a href="/plain">p</a><a href="/none">n</a><a href="/xhtml">x</a>`
	cfg, s := task(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is, known := types[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header()["Content-Type"] = []string{is}
		_, _ = w.Write([]byte(body))
	}))
	run(t, cfg)
	seen, told := 0, 0
	for _, c := range s.chunks {
		for _, p := range c.Pages {
			is, known := types[strings.TrimPrefix(p.URL, cfg.Header.Host)]
			if !known {
				continue
			}
			seen++
			if p.Shingle != 0 {
				told++
			}
			if got := Fingerprint(p.URL, is, []byte(body)); got != p.Shingle || channel.ContentDigest([]byte(body)) != p.Digest {
				t.Errorf("%s: %016x, the crawl says %016x", p.URL, got, p.Shingle)
			}
		}
	}
	if seen != len(types) || told < 3 {
		t.Errorf("%d pages of %d, %d with a fingerprint", seen, len(types), told)
	}
}
