package pages

import (
	"testing"
	"time"
)

func TestSURT(t *testing.T) {
	for url, want := range map[string]string{
		"http://www.example.org/a/b?c=d":   "org,example,www)/a/b?c=d",
		"https://example.org:8443/":        "org,example:8443)/",
		"http://127.0.0.1:7780/x":          "127.0.0.1:7780)/x",
		"http://[2001:db8::1]/x":           "[2001:db8::1])/x",
		"http://[2001:db8::1]:81/x":        "[2001:db8::1]:81)/x",
		"http://a/":                        "a)/",
		"http://site-000.pond.test/p/1.ht": "test,pond,site-000)/p/1.ht",
	} {
		if got := SURT(url); got != want {
			t.Errorf("SURT(%q) = %q, want %q", url, got, want)
		}
		if got := URLOfCapture(CaptureKey(url, time.Unix(1, 0))); got != url {
			t.Errorf("%q came back from its key as %q", url, got)
		}
	}
}

// Keys are those that webrecorder's readers look for; the archive's test with warcio asks one of them.
func TestSearchableURL(t *testing.T) {
	for url, want := range map[string]string{
		"https://www.Example.org/Dir/INDEX.html": "org,example)/dir/index.html",
		"http://www2.example.org/":               "org,example)/",
		"http://wwww.example.org/":               "org,example,wwww)/",
		"http://www.org/":                        "org)/",
		"http://www/":                            "www)/",
		"http://example.org:8080/a?c=2&B=1&a":    "org,example:8080)/a?a&b=1&c=2",
		"http://example.org/a?":                  "org,example)/a",
		"http://127.0.0.1:7780/x":                "1,0,0,127:7780)/x",
		"http://[2001:db8::1]:81/x":              "[2001:db8::1]:81)/x",
		"http://example.org/a%2Fb?u=http://x/?y": "org,example)/a%2fb?u=http://x/?y",
		"http://example.org/?b=%26&a=1&a=0":      "org,example)/?a=0&a=1&b=%26",
		"https://xn--bcher-kva.example/%C3%9C":   "example,xn--bcher-kva)/%c3%9c",
	} {
		if got := SearchableURL(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
