package text

import (
	"errors"
	"strings"
	"testing"

	"github.com/markusmobius/go-trafilatura"
	"time"
)

var article = "<html lang=en><head><title>A  title</title><script>var x = 'no'</script></head><body><nav><a href=/>Home</a> <a href=/b>Menu</a></nav><article><h1>A title</h1>" +
	strings.Repeat("<p>The quick brown fox jumps over the lazy dog, and it does so again in every paragraph of this article.</p>", 8) +
	"</article><footer>Imprint</footer></body></html>"

func TestExtract(t *testing.T) {
	got, err := Extract("http://example.org/", "text/html; charset=utf-8", []byte(article))
	if err != nil || got.Title != "A title" || got.Lang != "en" || !strings.Contains(got.Body, "quick brown fox") || strings.Contains(got.Body, "var x") {
		t.Errorf("article: %+v, %v", got, err)
	}
	got, err = Extract("http://example.org/", "text/html", []byte("<title>Few</title><p>Only <b>three</b> words<script>x</script>"))
	if err != nil || !strings.Contains(got.Body, "Only three words") || strings.Contains(got.Body, "x") {
		t.Errorf("few words: %+v, %v", got, err)
	}
	got, err = Extract("http://example.org/", "text/plain; charset=iso-8859-1", []byte("caf\xe9 "))
	if err != nil || got.Body != "café" {
		t.Errorf("plain: %+v, %v", got, err)
	}
	for _, c := range []struct{ kind, body string }{{"image/png", "x"}, {"application/json", "{}"}, {"text/html", ""}} {
		if _, err := Extract("http://example.org/", c.kind, []byte(c.body)); !errors.Is(err, ErrNoText) {
			t.Errorf("%s %q: %v", c.kind, c.body, err)
		}
	}
	if _, err := Extract("http://example.org/", "text/html", []byte(strings.Repeat("<b>", MaxTree+10))); err != nil && !errors.Is(err, ErrNoText) {
		t.Errorf("deep document: %v", err)
	}
}

func FuzzExtract(f *testing.F) {
	f.Add("text/html", []byte(article))
	f.Add("text/html; charset=utf-16", []byte("\xff\xfe<"))
	f.Add("text/plain", []byte("\xff"))
	f.Fuzz(func(t *testing.T, kind string, b []byte) {
		before := computed()
		got, err := Extract("http://example.org/", kind, b)
		if d := computed() - before; d > time.Second {
			t.Errorf("%d bytes took %v of a processor", len(b), d)
		}
		if err == nil && (len(got.Body) > MaxOut || strings.ToValidUTF8(got.Body, "") != got.Body) {
			t.Errorf("text of %d bytes", len(got.Body))
		}
	})
}

func BenchmarkExtract(b *testing.B) {
	b.SetBytes(int64(len(article)))
	for b.Loop() {
		if _, err := Extract("http://example.org/", "text/html", []byte(article)); err != nil {
			b.Fatal(err)
		}
	}
}

// Text is found without the parts of go-trafilatura that pass documents on to unmaintained modules.
func TestOptionsLeaveUnmaintainedModulesOff(t *testing.T) {
	o := options(nil)
	if o.EnableFallback || o.FallbackCandidates != nil || o.HtmlDateMode != trafilatura.Disabled || o.TargetLanguage != "" || o.EnableLog {
		t.Errorf("%+v", o)
	}
}
