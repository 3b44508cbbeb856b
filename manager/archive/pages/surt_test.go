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

// What the Internet Archive's surt library makes of URLs, so that pywb finds them.
func TestLibrarySURT(t *testing.T) {
	for url, want := range map[string]string{
		"http://www.example.org/":                       "org,example)/",
		"http://example.org/Dir/":                       "org,example)/dir",
		"http://example.org/a//b/?q":                    "org,example)/a/b?q",
		"http://example.org/a?":                         "org,example)/a",
		"http://example.org/a%252Fb%2Fc":                "org,example)/a/b/c",
		"http://example.org/%C3%9C%22%25":               "org,example)/%c3%9c\"%25",
		"http://example.org/a%2F..%2Fb":                 "org,example)/b",
		"http://example.org/?b=%26&a=1&a":               "org,example)/?&a&a=1&b=",
		"http://example.org/?a-b=1&a=2&a=10":            "org,example)/?a=10&a=2&a-b=1",
		"http://example.org/a//../%2F..":                "org,example)/a",
		"https://example.org:8443/":                     "org,example:8443)/",
		"http://192.0.2.7/x":                            "7,2,0,192)/x",
		"http://[2001:db8::1]:81/x":                     "2001:db8::1:81)/x",
		"http://www2.org/?PHPSESSID=" + hex32 + "&z=1":  "org)/?z=1",
		"http://a/x?a=1&jsessionid=" + hex32:            "a)/x?&a=1",
		"http://a/(S(abcdefghijklmnopqrstuvwx))/p.aspx": "a)/p.aspx",
		"http://a/p?cfid=1&cftoken=2&x=3":               "a)/p?x=3",
	} {
		if got := LibrarySURT(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

const hex32 = "0123456789abcdef0123456789ABCDEF"
