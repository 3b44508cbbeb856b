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
