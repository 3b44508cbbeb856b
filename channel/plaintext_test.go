package channel

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPlainText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""}, {"timeout: no answer", "timeout: no answer"}, {"grüße, 世界", "grüße, 世界"},
		{"\x1b[31mred\x1b[0m", "[31mred [0m"}, {"a\r\nb\tc", "a b c"}, {"  a  ", "a"}, {"abc\u202edef\u2066g", "abc def g"}, {"a\u200bb\ufeffc", "a b c"},
		{"bad \xff utf", "bad \ufffd utf"}, {"\x00\x07", ""}, {"a\u0085b", "a b"},
	} {
		if got := PlainText(c.in, 100); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.in, got, c.want)
		}
	}
	for n := range 40 {
		got := PlainText(strings.Repeat("ä ", 20), n)
		if len(got) > n || !utf8.ValidString(got) {
			t.Errorf("%d bytes at most: %q", n, got)
		}
	}
}

func TestErrorKind(t *testing.T) {
	for _, k := range []string{"timeout", "dns-not-found", "http-404", "robots-503", "other", "tls-expired"} {
		if got := ErrorKind(k); got != k {
			t.Errorf("%s is counted as %s", k, got)
		}
	}
	for _, k := range []string{"", "kind-1", "http-", "http-40", "http-4040", "http-abc", "http-099", "Timeout", "timeout\x1b"} {
		if got := ErrorKind(k); got != "other" {
			t.Errorf("%q is counted as %s", k, got)
		}
	}
}
