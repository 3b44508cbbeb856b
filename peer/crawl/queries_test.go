package crawl

import (
	"slices"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"shoal/channel"
)

// TestQueryEncoding holds queries to what browsers send (URL Standard, "percent-encode after encoding").
func TestQueryEncoding(t *testing.T) {
	cyrillic, err := charmap.Windows1251.NewEncoder().String(`<a href="/поиск?q=мир&x=1#мир">`)
	if err != nil {
		t.Fatal(err)
	}
	shift, err := japanese.ShiftJIS.NewEncoder().String(`<a href="?q=ソ連">`)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(`<a href="?q=é">`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, body, contentType, want string }{
		{"by the header", cyrillic, "text/html; charset=windows-1251", "/%D0%BF%D0%BE%D0%B8%D1%81%D0%BA?q=%EC%E8%F0&x=1"},
		{"by the page", "<meta charset=windows-1251>" + cyrillic, "text/html", "/%D0%BF%D0%BE%D0%B8%D1%81%D0%BA?q=%EC%E8%F0&x=1"},
		{"the header wins", "<meta charset=utf-8>" + cyrillic, "text/html; charset=windows-1251", "/%D0%BF%D0%BE%D0%B8%D1%81%D0%BA?q=%EC%E8%F0&x=1"},
		{"trailing octets in ASCII", shift, "text/html; charset=shift_jis", `/dir/page?q=%83\%98A`},
		{"UTF-8", `<a href="?q=é">`, "text/html; charset=utf-8", "/dir/page?q=%C3%A9"},
		{"nothing said", `<a href="?q=é">`, "text/html", "/dir/page?q=%C3%A9"},
		{"nothing said, and no UTF-8", "<a href=\"?q=\xe9\">", "text/html", "/dir/page?q=%E9"},
		{"UTF-16", wide, "text/html", "/dir/page?q=%C3%A9"},
		{"what the encoding has not", "<a href='?q=&#1084;\xe9'>", "text/html; charset=iso-8859-1", "/dir/page?q=%26%231084%3B%E9"},
		{"an encoding with states", "<a href='?q=&#x65e5;\t&#x672c;&#xff21;x'>", "text/html; charset=iso-2022-jp", `/dir/page?q=%1B$BF|K\%23A%1B(Bx`},
		{"a state that ends before a number", "<a href='?q=&#x65e5;&#x1f600;&#x672c;#x'>", "text/html; charset=iso-2022-jp", `/dir/page?q=%1B$BF|%1B(B%26%23128512%3B%1B$BK\%1B(B`},
		{"half-width katakana", "<a href='?q=&#xff71;&#xff9e;'>", "text/html; charset=iso-2022-jp", `/dir/page?q=%1B$B%25%22!+%1B(B`},
		{"yen, overline and minus", "<a href='?q=&#xa5;&#x203e;&#x2212;'>", "text/html; charset=shift_jis", `/dir/page?q=\~%81|`},
		{"what EUC-JP only decodes", "<a href='?q=&#233;&#x65e5;'>", "text/html; charset=euc-jp", `/dir/page?q=%26%23233%3B%C6%FC`},
		{"what Shift_JIS has twice", "<a href='?q=\xfb\xfc\x8b\xb4\xfa\xb1&#8560;a\xb1'>", "text/html; charset=shift_jis", `/dir/page?q=%FB%FC%8B%B4%FA%B1%FA@a%B1`},
		{"what Big5 only decodes", "<a href='?q=&#233;&#21655;\xa4\xa4'>", "text/html; charset=big5", `/dir/page?q=%26%23233%3B%26%2321655%3B%A4%A4`},
		{"control characters", "<a href='/\x81?q=\x81\x9d&#144;&#x20ac;'>", "text/html; charset=iso-8859-1", "/%C2%81?q=%81%9D%90%80"},
		{"octets of no character", "<a href='?q=\xa5\x85'>", "text/html; charset=iso-8859-3", "/dir/page?q=%26%2365533%3B%85"},
		{"UTF-8 with a broken octet", "<a href='?q=А\xff'>", "text/html", "/dir/page?q=%D0%90%FF"},
		{"a charset that does not exist", `<a href="?q=é">`, "text/html; charset=nonsense", "/dir/page?q=%C3%A9"},
	} {
		var p page
		p.read("http://site.test/dir/page", []byte(c.body), c.contentType, "shoal", false)
		want, err := channel.Canonical("http://site.test" + c.want)
		if err != nil || !slices.Equal(p.links, []string{want}) {
			t.Errorf("%s: %q, want %q (%v)", c.name, p.links, want, err)
		}
	}
}

// TestRefsRemembered: the same reference means something else under another base, and in another encoding.
func TestRefsRemembered(t *testing.T) {
	var p page
	for range 2 {
		for _, c := range []struct{ base, body, contentType, want string }{
			{"http://site.test/a/", `<a href="/x">`, "text/html", "http://site.test/x"},
			{"http://site.test/a/", `<base href="http://other.test/"><a href="/x">`, "text/html", "http://other.test/x"},
			{"http://other.test/", `<a href="/x">`, "text/html", "http://other.test/x"},
			{"http://site.test/a/", `<a href="//x/y">`, "text/html", "http://x/y"},
			{"http://site.test/a/", `<a href="x">`, "text/html", "http://site.test/a/x"},
			{"http://site.test/b/", `<a href="x">`, "text/html", "http://site.test/b/x"},
			{"http://site.test/b/", "<a href='/?\xe9'>", "text/html; charset=iso-8859-1", "http://site.test/?%E9"},
			{"http://site.test/b/", "<a href='/?é'>", "text/html", "http://site.test/?%C3%A9"},
			{"http://site.test/b/", `<a href="/s?sid=0123456789abcdef"><a href="/s">`, "text/html", "http://site.test/s"},
		} {
			p.read(c.base, []byte(c.body), c.contentType, "shoal", false)
			if !slices.Equal(p.links, []string{c.want}) {
				t.Errorf("%s on %s: %q", c.body, c.base, p.links)
			}
		}
	}
}
