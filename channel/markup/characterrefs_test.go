package markup

import (
	"html"
	"testing"
)

// TestValues are attributes as the HTML standard has them, and as pages have them.
func TestValues(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"/a?x=1&section=2&copy=3&reg=4", "/a?x=1&section=2&copy=3&reg=4"}, {"/a?x&copy", "/a?x©"}, {"/a?x&copyx", "/a?x&copyx"}, {"&copy;=", "©="},
		{"/a&amp;b", "/a&b"}, {"/a&ampb", "/a&ampb"}, {"/a&amp", "/a&"}, {"/?a&lt;b&gt", "/?a<b>"}, {"&#x2f;a&#47b", "/a/b"}, {"&sol;x", "/x"}, {"&nosuch;&section;", "&nosuch;&section;"},
		{"&&&", "&&&"}, {"&;", "&;"}, {"&#;&#x;", "&#;&#x;"}, {"a&", "a&"}, {"&notin;", "∉"}, {"&not", "¬"}, {"&notit;", "&notit;"}, {"?a=b&amp;amp;c", "?a=b&amp;c"}, {"&semi;", ";"},
	} {
		if got := Value([]byte(c.in)); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

// TestNumbersOfCharacters: one digit is a number, and a number that is no character is U+FFFD, however large it is.
func TestNumbersOfCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"&#9x": "\tx", "&#9": "\t", "a&#9&#9;b": "a\t\tb", "&#0": "\uFFFD", "&#0;": "\uFFFD", "&#1": "\x01", "&#x9g": "\tg", "&#X41=": "A=", "&#x": "&#x", "&#xg;": "&#xg;", "&#g": "&#g", "&#-1;": "&#-1;", "&#": "&#", "&#&#65": "&#A",
		"&#x800000000000000038;": "\uFFFD", "&#x800000038": "\uFFFD", "&#4294967361;": "\uFFFD", "&#18446744073709551681;b": "\uFFFDb", "&#x110000;": "\uFFFD", "&#xd800;": "\uFFFD", "&#x10ffff;": "\U0010FFFF", "&#128;": "€", "&#x81;": "\u0081",
		"&#000000000000000000000000065;": "A",
	} {
		if got := Value([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestTexts: in a text a name counts whatever follows it, and numbers are read as in attributes. Names are those of the library.
func TestTexts(t *testing.T) {
	for in, want := range map[string]string{
		"a &copyb &section; &notit; &amp;amp; &nosuch; &": "a ©b §ion; ¬it; &amp; &nosuch; &", "&#9&#65x&#x41;&#": "\tAxA&#", "&#x800000038; &#4294967361;": "\uFFFD \uFFFD", "&#0;&#128;": "\uFFFD€", "&fjlig;&NotEqualTilde;": "fj\u2242\u0338", "": "",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for _, in := range []string{"x &lt &lt; &ltx; &amp&amp;&amp;lt &eacute&Eacute;s &notin; &notinx &hellip&hellip; &semi;&semi", "&é;", "&a;b;&copy=1"} {
		if got, want := Text(in), html.UnescapeString(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
