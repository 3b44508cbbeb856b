package channel

import (
	"errors"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct{ raw, want string }{ // want "": refused
		// scheme
		{"http://example.org", "http://example.org/"},
		{"HTTPS://Example.ORG/A", "https://example.org/A"},
		{"http:example.org/a", "http://example.org/a"},
		{"http:////example.org/a", "http://example.org/a"},
		{"ftp://example.org/", ""}, {"mailto:a@example.org", ""}, {"javascript:alert(1)", ""}, {"data:,x", ""}, {"file:///etc/passwd", ""},
		{"//example.org/", ""}, {"/a", ""}, {"", ""}, {"http://", ""}, {"http:///", ""},
		// user names and what they hide
		{"http://user@example.org/", "http://example.org/"},
		{"http://user:secret@example.org/a", "http://example.org/a"},
		{"http://good.test@evil.test/", "http://evil.test/"},
		{"http://good.test:80@evil.test:81/", "http://evil.test:81/"},
		{"http://a@b@c.test/", "http://c.test/"},
		{"http://" + strings.Repeat("@", 500) + "c.test/", "http://c.test/"},
		{"http://" + strings.Repeat("@", 1000) + "c.test/", ""},
		{"http:" + strings.Repeat("a", 1000) + "@c.test/", ""},
		{"http:\\\\/" + strings.Repeat("a", 1000) + "@c.test/", ""},
		{"http://c.test/" + strings.Repeat("a", 1000) + "@", "http://c.test/" + strings.Repeat("a", 1000) + "@"},
		{"http://c.test?" + strings.Repeat("a", 1000) + "@", "http://c.test/?" + strings.Repeat("a", 1000) + "@"},
		{"http://evil.test\\@good.test/", "http://evil.test/@good.test/"},
		{"http://evil.test#@good.test/", "http://evil.test/"},
		{"http://evil.test?@good.test/", "http://evil.test/?@good.test/"},
		// ports
		{"http://example.org:80/", "http://example.org/"},
		{"https://example.org:443/", "https://example.org/"},
		{"https://example.org:80/", "https://example.org:80/"},
		{"http://example.org:/", "http://example.org/"},
		{"http://example.org:008080/", "http://example.org:8080/"},
		{"http://example.org:65536/", ""}, {"http://example.org:0/", ""}, {"http://example.org:8a/", ""}, {"http://example.org:-1/", ""},
		// dots, slashes, backslashes
		{"http://h.test/a/./b/../c", "http://h.test/a/c"},
		{"http://h.test/../../a", "http://h.test/a"},
		{"http://h.test/a/..", "http://h.test/"},
		{"http://h.test/a/.", "http://h.test/a/"},
		{"http://h.test/a/%2e%2E/b", "http://h.test/b"},
		{"http://h.test/a/.%2e", "http://h.test/"},
		{"http://h.test/a//b", "http://h.test/a//b"},
		{"http://h.test\\a\\b", "http://h.test/a/b"},
		{"http://h.test/a?b/../c", "http://h.test/a?b/../c"},
		{"http://h.test/...", "http://h.test/..."},
		// percent-encoding
		{"http://h.test/%7euser", "http://h.test/~user"},
		{"http://h.test/%c3%a9", "http://h.test/%C3%A9"},
		{"http://h.test/é", "http://h.test/%C3%A9"},
		{"http://h.test/a b\"<>`{}", "http://h.test/a%20b%22%3C%3E%60%7B%7D"},
		{"http://h.test/%2F%2f", "http://h.test/%2F%2F"},
		{"http://h.test/100%", "http://h.test/100%25"},
		{"http://h.test/%%34%31", "http://h.test/%2541"},
		{"http://h.test/%zz", "http://h.test/%25zz"},
		{"http://h.test/?q=é'&%41", "http://h.test/?q=%C3%A9%27&A"},
		{"http://h.test/\xff", "http://h.test/%EF%BF%BD"},
		{"http://h.test/?", "http://h.test/?"},
		// fragments, spaces, tabs, newlines
		{"http://h.test/a#b", "http://h.test/a"},
		{"http://h.test/?a#b?c", "http://h.test/?a"},
		{"  http://h.test/a \n", "http://h.test/a"},
		{"ht\ntp://h.te\tst/a\r\nb", "http://h.test/ab"},
		{"http://h .test/", ""},
		{"http://h.test/\x00a\x00", "http://h.test/%00a"},
		// names
		{"http://BÜCHER.example/", "http://xn--bcher-kva.example/"},
		{"http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"},
		{"http://faß.test/", "http://xn--fa-hia.test/"},
		{"http://日本語。ＪＰ/", "http://xn--wgv71a119e.jp/"},
		{"http://ex%41mple.org/", "http://example.org/"},
		{"http://example.org./a", "http://example.org/a"},
		{"http://example.org../a", ""}, {"http://a..b/", ""}, {"http://./", ""}, {"http://xn--/", ""},
		{"http://a_b.example.org/", "http://a_b.example.org/"},
		{"http://a$b.test/", ""}, {"http://a%00b.test/", ""}, {"http://a%2fb.test/", ""},
		{"http://" + long + ".test/", "http://" + long + ".test/"},
		{"http://" + long + "a.test/", ""},
		{"http://" + strings.Repeat(long+".", 4) + "test/", ""},
		{"http://localhost/", "http://localhost/"},
		// addresses in disguise
		{"http://127.0.0.1/", "http://127.0.0.1/"},
		{"http://2130706433/", "http://127.0.0.1/"},
		{"http://0x7f000001/", "http://127.0.0.1/"},
		{"http://0177.0.0.1/", "http://127.0.0.1/"},
		{"http://127.1/", "http://127.0.0.1/"},
		{"http://0x7f.1./", "http://127.0.0.1/"},
		{"http://１２７.0.0.1/", "http://127.0.0.1/"},
		{"http://256.0.0.1/", ""}, {"http://1.2.3.4.5/", ""}, {"http://foo.0x4/", ""}, {"http://4294967296/", ""},
		{"http://[::1]/", "http://[::1]/"},
		{"http://[2001:DB8:0:0:0::1]:8080/", "http://[2001:db8::1]:8080/"},
		{"http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"},
		{"http://[::1/", ""}, {"http://::1/", ""}, {"http://[::g]/", ""}, {"http://[fe80::1%25eth0]/", ""},
		// length
		{"http://h.test/" + strings.Repeat("a", MaxURL-14), "http://h.test/" + strings.Repeat("a", MaxURL-14)},
		{"http://h.test/" + strings.Repeat("a", MaxURL-13), ""},
		{"http://h.test/" + strings.Repeat("é", 400), ""},
		{"http://h.test/" + strings.Repeat("../", 2*MaxURL), ""},
	} {
		got, err := Canonical(c.raw)
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, ErrURL) {
			t.Errorf("Canonical(%.100q) = %q, %v; want %q", c.raw, got, err, c.want)
		}
		if c.want != "" {
			if again, err := Canonical(c.want); again != c.want {
				t.Errorf("Canonical(%q) = %q, %v: not its own canonical form", c.want, again, err)
			}
		}
	}
}

func TestResolve(t *testing.T) {
	const base = "http://h.test:8080/a/b?q"
	for _, c := range []struct{ ref, want string }{
		{"", base}, {"#x", base}, {"c", "http://h.test:8080/a/c"}, {"c/d?e#f", "http://h.test:8080/a/c/d?e"},
		{"/c", "http://h.test:8080/c"}, {"//other.test/c", "http://other.test/c"}, {"?r", "http://h.test:8080/a/b?r"},
		{"../c", "http://h.test:8080/c"}, {"./", "http://h.test:8080/a/"}, {"..", "http://h.test:8080/"},
		{"https://other.test/x", "https://other.test/x"}, {"https://OTHER.test", "https://other.test/"},
		{"\\c", "http://h.test:8080/c"}, {"\\\\other.test\\c", "http://other.test/c"}, {" c\t", "http://h.test:8080/a/c"},
		{"http:c", "http://h.test:8080/a/c"}, {"c:d", ""}, {"javascript:void(0)", ""}, {"mailto:x@h.test", ""}, {"./c:d", "http://h.test:8080/a/c:d"},
		{"x/c:d", "http://h.test:8080/a/x/c:d"}, {"http://", ""}, {"//", ""}, {"///x.test", "http://x.test/"},
		{"/" + strings.Repeat("a", MaxURL), ""}, {"a/.b", "http://h.test:8080/a/a/.b"}, {"a/../../..", "http://h.test:8080/"},
	} {
		if got, err := Resolve(base, c.ref); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("Resolve(%q) = %q, %v; want %q", c.ref, got, err, c.want)
		}
	}
	if _, err := Resolve("mailto:x@h.test", "c"); !errors.Is(err, ErrURL) {
		t.Errorf("Resolve against a base without a path: %v", err)
	}
}

func TestOrigin(t *testing.T) {
	for url, want := range map[string]string{
		"http://h.test/": "http://h.test", "https://h.test:8080/a/b?http://x/": "https://h.test:8080", "http://[::1]:1/": "http://[::1]:1",
	} {
		if got := Origin(url); got != want {
			t.Errorf("Origin(%q) = %q, want %q", url, got, want)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"http://example.org/a?b#c", "https://Ü:p@x.test:443/%7e/%2e%2e/%%341", "http://0x7f.1./", "http://[::1]\\a", "http://xn--a.test."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := Canonical(raw)
		if err != nil {
			return
		}
		if again, err := slowCanonical("", got); again != got {
			t.Fatalf("%q: canonical form %q has canonical form %q, %v", raw, got, again, err)
		}
		c := checker{}
		if c.url("", got); c.err != nil {
			t.Fatalf("%q: %v", raw, c.err)
		}
		if o := Origin(got); !isOrigin(o) || strings.ContainsAny(o, "@\\") || strings.ContainsAny(got, "#") {
			t.Fatalf("%q: canonical form %q has origin %q", raw, got, o)
		}
	})
}

// The fast path must agree with the parser.
func FuzzResolve(f *testing.F) {
	f.Add("http://h.test/a/b?c", "d/e?f#g")
	f.Add("http://h.test/", "//x.test:80/..//%2e")
	f.Add("https://h.test/a", "http:b")
	f.Fuzz(func(t *testing.T, base, ref string) {
		base, err := Canonical(base)
		if err != nil {
			return
		}
		got, err := Resolve(base, ref)
		want, slowErr := slowCanonical(base, ref)
		if got != want || (err == nil) != (slowErr == nil) {
			t.Fatalf("Resolve(%q, %q) = %q, %v; the parser says %q, %v", base, ref, got, err, want, slowErr)
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	for name, ref := range map[string]string{"fast": "/section/article-12345.html?page=2", "slow": "../article.html"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Resolve("https://www.example.org/news/index.html", ref); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestMappedHostsAreTheirOwnForm: a host whose name is mapped is one that is read as itself again, or it is refused.
func TestMappedHostsAreTheirOwnForm(t *testing.T) {
	for _, host := range []string{"≠.com", "a≠b.com", "≮", "a\u2135.com", "\u2136a.com", "x\U0001EE00.com", "a%E2%89%A0.com", "bücher.example", "ẞ.com", "日本語。ＪＰ", "☕.com", "a\u0301.com", "xn--bcher-kva.example"} {
		u, err := Resolve("http://h.test/", "//"+host+"/x")
		if err != nil {
			continue
		}
		if again, err := Canonical(u); err != nil || again != u {
			t.Errorf("%s: %s, and that is read as %q (%v)", host, u, again, err)
		}
	}
	if u, err := Resolve("http://xn--bcher-kva.example/", "/ü"); err != nil || u != "http://xn--bcher-kva.example/%C3%BC" {
		t.Errorf("%s, %v", u, err)
	}
}

// TestSharpS: host names are mapped as today's UTS 46 has it, non-transitionally: neither "ß" nor "ẞ" is "ss", which is another host.
func TestSharpS(t *testing.T) {
	for _, c := range [][2]string{
		{"http://ß.com/ẞ?ẞ", "http://xn--zca.com/%E1%BA%9E?%E1%BA%9E"}, {"http://ẞ.com/", "http://xn--zca.com/"}, {"http://FAẞ.de/", "http://xn--fa-hia.de/"},
		{"http://fa%C3%9F.de/", "http://xn--fa-hia.de/"}, {"http://fa%e1%Ba%9e.de/", "http://xn--fa-hia.de/"}, {"http://user:ẞ@ẞ.com:8080/", "http://xn--zca.com:8080/"},
		{"//ẞ.com/a", "http://xn--zca.com/a"}, {"\\\\ẞ.com", "http://xn--zca.com/"}, {"http://ΒΌΛΟς.com/", "http://xn--nxasmm1c.com/"}, {"http://ss.com/", "http://ss.com/"},
	} {
		got, err := Resolve("http://h.test/", c[0])
		if err != nil || got != c[1] {
			t.Errorf("%s: %s, want %s (%v)", c[0], got, c[1], err)
		}
	}
	if got, err := Canonical("https://www.straẞe.de"); err != nil || got != "https://www.xn--strae-oqa.de/" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestHostsOfTodaysUTS46: host names are mapped by tables of today and by the URL Standard's rules, which do not forbid "_" beside letters of other alphabets.
func TestHostsOfTodaysUTS46(t *testing.T) {
	for _, c := range [][2]string{
		{"my_shop.bücher.example", "my_shop.xn--bcher-kva.example"}, {"MY_shop.xn--BCHER-kva.example", "my_shop.xn--bcher-kva.example"},
		{"_dmarc.xn--bcher-kva.example", "_dmarc.xn--bcher-kva.example"}, {"my_bücher.example", "xn--my_bcher-95a.example"}, {"a_b.b%C3%BCcher.example", "a_b.xn--bcher-kva.example"},
		{"\u04c0.com", "xn--s5a.com"}, {"%D3%80.com", "xn--s5a.com"}, {"\u10a0\u10c5.ge", "xn--rkj0d.ge"}, {"\u2132.com", "xn--73g.com"}, {"\u2183.com", "xn--r5g.com"},
		{"a\u115fb\u1160c\u17b4d\u17b5e\u180ef.com", "abcdef.com"}, {"ge\u2061o\u206frg\u3164.org", "georg.org"}, {"\U0001ccd6\U0001ccf9.com", "a9.com"},
		{"≠.com", "xn--1ch.com"}, {"xn--1ch.com", "xn--1ch.com"}, {"a_b.xn--1ch.com", "a_b.xn--1ch.com"},
		{"my_shop.xn--a.example", ""}, {"my_shop.xn--.example", ""}, {"my_shop.a$b.bücher.example", ""}, {"a_b.bücher .example", ""}, {"a_b.%25.bücher.example", ""},
		{"a_b.b%fccher.example", ""}, {"a_b.אa.example", ""}, {"a_b.\u2135a.example", ""}, {"a_b.xn--\u00fc.example", ""}, {"\u115f", ""}, {"a.\u115f.com", ""}, {"a_\u200db.com", ""},
	} {
		got, err := Canonical("http://" + c[0] + "/x")
		if want := "http://" + c[1] + "/x"; c[1] != "" && (got != want || err != nil) || c[1] == "" && err == nil {
			t.Errorf("%s: %q, want %q (%v)", c[0], got, c[1], err)
		}
		if err == nil {
			if again, err := Resolve(got, "x"); err != nil || again != got {
				t.Errorf("%s: a link on it is %q (%v)", got, again, err)
			}
		}
	}
}
