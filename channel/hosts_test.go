package channel

import (
	"errors"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	all := []string{"http://a.example", "https://a.example", "http://a.example:8080", "https://a.example:8080", "https://a.example:80",
		"http://www.a.example", "http://a.example.org", "http://xa.example", "http://[2001:db8::1]", "http://[2001:db8::1]:81", "http://10.0.0.1", "http://10.0.0.1:81"}
	for raw, want := range map[string]string{
		"a.example":              "http://a.example https://a.example http://a.example:8080 https://a.example:8080 https://a.example:80",
		" A.Example. ":           "http://a.example https://a.example http://a.example:8080 https://a.example:8080 https://a.example:80",
		"a.example/":             "http://a.example https://a.example http://a.example:8080 https://a.example:8080 https://a.example:80",
		"a.example:8080":         "http://a.example:8080 https://a.example:8080",
		"a.example:80":           "http://a.example https://a.example:80",
		"http://a.example":       "http://a.example",
		"https://a.example":      "https://a.example",
		"http://a.example:8080/": "http://a.example:8080",
		"[2001:db8::1]":          "http://[2001:db8::1] http://[2001:db8::1]:81",
		"[2001:db8::1]:81":       "http://[2001:db8::1]:81",
		"10.0.0.1":               "http://10.0.0.1 http://10.0.0.1:81",
	} {
		h, err := ParseHosts(raw)
		if err != nil {
			t.Errorf("%q: %v", raw, err)
			continue
		}
		var got []string
		for _, o := range all {
			if h.Has(o) {
				got = append(got, o)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q has %s, want %s", raw, s, want)
		}
		for _, o := range h.Origins() {
			if !h.Has(o) {
				t.Errorf("%q: %s is named and not meant", raw, o)
			}
		}
	}
	for _, raw := range []string{"", " ", "://", "not a host", "a.example/page", "https://a.example/dir/", "a.example?q", "ftp://a.example", "a b/", "user@a.example"} {
		if h, err := ParseHosts(raw); !errors.Is(err, ErrHost) {
			t.Errorf("%q is taken as %+v, %v", raw, h, err)
		}
	}
	if h, port := HostsOf("http://a.example:8080"); !port || !h.Has("https://a.example") {
		t.Errorf("%+v, %v", h, port)
	}
}
