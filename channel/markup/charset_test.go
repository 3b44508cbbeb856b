package markup

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// TestEncodingsInTheirOrder: a byte order mark says more than the header, that more than a <meta>, that more than an XML declaration. What only
// looks like one of them says nothing.
func TestEncodingsInTheirOrder(t *testing.T) {
	const text = "<p>\xd0\xbf\xe9" // no UTF-8
	little, _ := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().String(`<?xml version="1.0"?><p>é`)
	for i, c := range []struct{ body, contentType, want string }{
		{text, "text/html", "windows-1252"}, {"<p>é", "text/html", "utf-8"}, {"\xef\xbb\xbf" + text, "text/html; charset=koi8-r", "utf-8"},
		{"\xfe\xff\x00<", "text/html; charset=utf-8", "utf-16be"}, {"\xff\xfe<\x00", "text/html", "utf-16le"},
		{"<meta charset=utf-8>" + text, "text/html; charset=koi8-r", "koi8-r"}, {"<meta charset=koi8-r>" + text, "text/html; charset=nonsense", "koi8-r"},
		{text, `text/html;CHARSET = "koi8-r"`, "koi8-r"}, {text, "text/html charset=koi8-r", "koi8-r"}, {text, "text/html, text/html; charset=koi8-r", "koi8-r"},
		{text, `text/html; x="; charset=koi8-r"`, "windows-1252"}, {text, `text/html; x="a, b"; Charset = "koi8-r"`, "koi8-r"},
		{text, "text/html; x-charset=koi8-r", "windows-1252"}, {text, "text/html; charset='koi8-r'", "koi8-r"},
		{"<script charset=koi8-r src=x></script>" + text, "text/html", "windows-1252"}, {"<link charset=koi8-r><meta name=x content='charset=koi8-r'>" + text, "text/html", "windows-1252"},
		{"<script charset=utf-8 src=x></script><meta charset=koi8-r>" + text, "text/html", "koi8-r"}, {"<p title='<meta charset=koi8-r>'>" + text, "text/html", "windows-1252"},
		{"<!-- <meta charset=utf-8> --><META CHARSET = 'koi8-r'>" + text, "text/html", "koi8-r"}, {"<!--><meta charset=koi8-r>" + text, "text/html", "koi8-r"},
		{"<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>" + text, "text/html", "koi8-r"}, {"<meta content='text/html;charset=koi8-r' http-equiv=content-type>" + text, "", "koi8-r"},
		{"<meta http-equiv=refresh content='0;url=?charset=koi8-r'>" + text, "text/html", "windows-1252"}, {"<meta charset=nonsense><meta charset=koi8-r>" + text, "text/html", "koi8-r"},
		{"<meta charset=utf-16>" + text, "text/html", "utf-8"}, {"<meta/charset=koi8-r>" + text, "text/html", "koi8-r"},
		{`<?xml version="1.0" encoding="koi8-r"?>` + text, "text/html", "koi8-r"}, {`<?xml version="1.0" encoding='koi8-r'?><html>` + text, "application/xhtml+xml", "koi8-r"},
		{`<?xml version="1.0" encoding="koi8-r"?><meta charset=iso-8859-5>` + text, "text/html", "iso-8859-5"}, {`<?xml version="1.0" encoding="koi8-r"?><meta charset=iso-8859-5>` + text, "application/xhtml+xml", "koi8-r"},
		{little, "text/html", "utf-16le"}, {strings.Repeat(" ", sniffed) + "<meta charset=koi8-r>" + text, "text/html", "koi8-r"},
	} {
		if _, name, _ := encodingOf([]byte(c.body), c.contentType); name != c.want {
			t.Errorf("%d: %q of %q: %s, want %s", i, c.body[:min(len(c.body), 60)], c.contentType, name, c.want)
		}
	}
	if out, _, _ := UTF8([]byte("\xef\xbb\xbfé"), ""); string(out) != "é" {
		t.Errorf("%q", out)
	}
}

// TestWhichCharsetCounts: of a header with several types the last one counts, and a <meta> counts wherever the parser comes to it.
func TestWhichCharsetCounts(t *testing.T) {
	late := strings.Repeat("<!-- a long beginning -->\n", 100)
	for _, c := range []struct{ contentType, doc, want string }{
		{"text/html;charset=koi8-r, text/html;charset=big5", "\xe4", "big5"},
		{"text/html;charset=koi8-r, text/html", "\xe4", "koi8-r"},
		{"text/html;charset=koi8-r, text/plain", "\xe4", "windows-1252"},
		{"text/plain;charset=koi8-r, text/html;charset=big5", "\xe4", "big5"},
		{"text/html;charset=koi8-r, */*", "\xe4", "koi8-r"},
		{"text/html charset=koi8-r", "\xe4", "koi8-r"},
		{"charset=koi8-r", "\xe4", "koi8-r"},
		{"text/html", late + "<meta charset=koi8-r>\xe4", "koi8-r"},
		{"text/html", late + "<meta http-equiv=content-type content='text/html; charset=iso-2022-jp'>x", "iso-2022-jp"},
		{"text/html", late + "<meta charset=nonsense><meta charset=koi8-r>\xe4", "koi8-r"},
		{"text/html", late + "<script>'<meta charset=big5>'</script><title><meta charset=big5></title><meta charset=koi8-r>\xe4", "koi8-r"},
		{"text/html", late + "<!-- <meta charset=koi8-r> --><p title='<meta charset=koi8-r>'>\xe4", "windows-1252"},
		{"text/html", late + "<plaintext><meta charset=koi8-r>\xe4", "windows-1252"},
		{"text/html", late + "<meta charset=utf-16>ä", "utf-8"},
		{"text/html;charset=utf-8", late + "<meta charset=koi8-r>\xe4", "utf-8"},
		{"text/html", "<meta charset=big5>" + late + "<meta charset=koi8-r>\xe4", "big5"},
	} {
		if _, name, _ := encodingOf([]byte(c.doc), c.contentType); name != c.want {
			t.Errorf("%q, %q: %s, want %s", c.contentType, c.doc[max(0, len(c.doc)-80):], name, c.want)
		}
	}
}

// TestCharsetOfMeta: a <meta> is read exactly, unlike a header.
func TestCharsetOfMeta(t *testing.T) {
	const none = "windows-1252"
	for _, c := range []struct{ content, want string }{
		{`text/html; charset="koi8-r`, none}, {"text/html; charset='koi8-r", none}, {"charset=koi8-r,x", none}, {`charset=koi8-r"`, none}, {"charset=x;charset=koi8-r", none},
		{"x-charset=koi8-r", "koi8-r"}, {"charset charset = 'koi8-r' x", "koi8-r"}, {"CHARSET\t=\nKOI8-R;x", "koi8-r"}, {"charset==koi8-r", none}, {"charset='' charset=koi8-r", none},
	} {
		doc := "<meta http-equiv=content-type content=`" + c.content + "`>\xe4"
		doc = strings.NewReplacer(`"`, "&quot;", "`", `"`).Replace(doc)
		if _, name, _ := encodingOf([]byte(doc), "text/html"); name != c.want {
			t.Errorf("%q: %s, want %s", c.content, name, c.want)
		}
	}
	for _, c := range []struct{ doc, want string }{
		{"<meta charset='\u00a0koi8-r'>", none}, {"<meta charset='\vkoi8-r'>", none}, {"<meta charset='\t koi8-r\n'>", "koi8-r"}, {"<meta charset='&#107;oi8-r'>", "koi8-r"},
		{"<meta charset=x http-equiv=content-type content='charset=koi8-r'>", "koi8-r"},
	} {
		if _, name, _ := encodingOf([]byte(c.doc+"\xe4"), "text/html"); name != c.want {
			t.Errorf("%q: %s, want %s", c.doc, name, c.want)
		}
	}
}

// TestParserOverrulesTheBeginning: what looks like a <meta> at the beginning, and an XML declaration, count only if the parser comes to no <meta>.
func TestParserOverrulesTheBeginning(t *testing.T) {
	late := strings.Repeat("<!-- a long beginning -->\n", 100) + "<meta charset=koi8-r>"
	for _, c := range []struct{ contentType, doc, want string }{
		{"text/html", "<script>'<meta charset=big5>'</script><meta charset=koi8-r>", "koi8-r"}, {"text/html", "<title><meta charset=big5></title>" + late, "koi8-r"},
		{"text/html", "<style><meta charset=koi8-r></style>", "koi8-r"}, {"text/html", "<!-- --!><meta charset=koi8-r>--><meta charset=big5>", "koi8-r"},
		{"text/html", `<?xml encoding="big5"?>` + late, "koi8-r"}, {"text/html", `<?xml encoding="koi8-r"?><meta charset=x>`, "koi8-r"},
		{"text/html", `<?xml version="1.0"encoding = 'koi8-r'>`, "koi8-r"}, {"text/html", `<?xml encoding=" koi8-r"?>`, "windows-1252"}, {"text/html", `<?xml ENCODING="koi8-r"?>`, "windows-1252"},
		{"text/html", `<?xml x="encoding" encoding="koi8-r"?>`, "windows-1252"}, {"text/html", ` <?xml encoding="koi8-r"?>`, "windows-1252"}, {"text/html", `<?xml encoding="utf-16"?>`, "utf-8"},
		{"text/html; charset=; charset=koi8-r", "", "koi8-r"}, {"text/html;charset=koi8-r, */*;charset=big5", "", "koi8-r"},
		{"application/xhtml+xml", `<?xml encoding="koi8-r"?><meta charset="big5"/>`, "koi8-r"}, {"application/xhtml+xml", `<meta charset="koi8-r"/>`, "koi8-r"},
	} {
		if _, name, _ := encodingOf([]byte(c.doc+"\xe4"), c.contentType); name != c.want {
			t.Errorf("%q, %.60q: %s, want %s", c.contentType, c.doc, name, c.want)
		}
	}
	if _, name, _ := encodingOf([]byte(`<html><meta http-equiv="content-type" content="text/html; charset=iso-8859-1"/>é`), "application/xhtml+xml"); name != "utf-8" {
		t.Errorf("XML without a declaration: %s", name)
	}
}

// TestCutDocumentStaysUTF8: a document that was cut within a character has its encoding still.
func TestCutDocumentStaysUTF8(t *testing.T) {
	const doc = "<a href=/é>日本𝄞"
	for n := range len(doc) {
		cut := WholeCharacters([]byte(doc[:n]))
		if _, name, _ := encodingOf(cut, "text/html"); name != "utf-8" || n-len(cut) >= 4 {
			t.Errorf("%q: %s, %q", doc[:n], name, cut)
		}
	}
	for _, whole := range []string{"", "a", "é", "a\xe9\xe9", "\xff\xfea\x00\xe9", "\x80\x80\x80\x80"} {
		if got := WholeCharacters([]byte(whole)); string(got) != whole {
			t.Errorf("%q: %q", whole, got)
		}
	}
}

// TestGBKHasFourOctets: what says GBK is decoded as gb18030, which has characters of four octets. Queries are still written in GBK.
func TestGBKHasFourOctets(t *testing.T) {
	for _, label := range []string{"gbk", "gb2312", "gb_2312-80", "x-gbk", "gb18030"} {
		text, queries, name := UTF8([]byte("<a href=/\x94\x39\xfc\x36>\xd6\xd0\x81\x30\x81\x30\x80"), "text/html; charset="+label)
		if string(text) != "<a href=/\U0001f600>中\u0080€" {
			t.Errorf("%s: %q", label, text)
		}
		if _, err := queries.NewEncoder().String("\U0001f600"); (err == nil) != (name == "gb18030") {
			t.Errorf("%s: queries in %s: %v", label, name, err)
		}
	}
}

// TestEscapesCountEverywhere decodes a text in which a title was cut off in the middle of a character: what follows its end is text again, with its markup.
func TestEscapesCountEverywhere(t *testing.T) {
	enc, _ := Lookup("iso-2022-jp")
	for in, want := range map[string]string{
		"<p>\x1b$B0!\"\x1b(B</p><a href=/lost>y</a><p>\x1b$B0!\x1b(B</p>": "<p>亜�</p><a href=/lost>y</a><p>亜</p>",
		"\x1b$B0!\x1b(Bx": "亜x",
		"x":               "x",
		"":                "",
	} {
		got, err := Decode(enc, []byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%q is %q, %v, want %q", in, got, err, want)
		}
	}
}

// TestASCIIBehindHalfACharacter: an octet of ASCII that makes no character with the one before it is text of its own, as in browsers. Otherwise markup and letters of
// links would get lost with it.
func TestASCIIBehindHalfACharacter(t *testing.T) {
	for _, c := range []struct{ label, in, want string }{
		{"shift_jis", "<a title=\"\x82\" href=/\x82Apage>\x82\xa0\x82</a>", "<a title=\"\uFFFD\" href=/\uFFFDApage>あ\uFFFD</a>"}, {"shift_jis", "\x83A\x82|\x82|x", "ア\uFFFD|\uFFFD|x"},
		{"shift_jis", "\xf0@\xf9~x\x80\xa0\xb1\xfdA", "\uFFFD\uFFFDx\u0080\uFFFDｱ\uFFFDA"}, {"shift_jis", "\x82", "\uFFFD"}, {"shift_jis", "\x82\x81A\x82", "ａA\uFFFD"}, {"shift_jis", "\xfc~\xfc\x7fx", "\uFFFD~\uFFFD\x7fx"},
		{"big5", "<a title='\xa4' href=/\x81A>\xa4\xa4\x81</a>", "<a title='\uFFFD' href=/\uFFFDA>中\uFFFD</a>"}, {"big5", "\x88b\x88d\x88\xa3\x88\xa5x", "Ê̄Ê̌ê̄ê̌x"}, {"big5", "\xa4\x7fx\xa4@\x81@\x81@", "\uFFFD\x7fx一\uFFFD@\uFFFD@"},
		{"euc-kr", "<a title='\xb0' href=/\xc8A>\xb0\xa1", "<a title='\uFFFD' href=/\uFFFDA>가"}, {"gbk", "<a title='\xd6'>\xd6\xd0", "<a title='\uFFFD'>中"}, {"gb18030", "\x81\"\x810\"", "\uFFFD\"\uFFFD0\""}, {"euc-jp", "\xa4\">\x8f\">", "\uFFFD\">\uFFFD\">"},
	} {
		text, _, name := UTF8([]byte(c.in), "text/html; charset="+c.label)
		if string(text) != c.want || name != c.label {
			t.Errorf("%s: %q is %q, want %q", c.label, c.in, text, c.want)
		}
	}
}

// TestPairsAreDecodedAsInTheStandard has each pair of octets between others: what the library makes of one that stands for a character stays as it was, and behind what
// does not the ASCII is there.
func TestPairsAreDecodedAsInTheStandard(t *testing.T) {
	for _, label := range []string{"shift_jis", "big5", "euc-kr", "euc-jp"} {
		enc, _ := Lookup(label)
		for lead := 0x80; lead < 0x100; lead++ {
			for trail := range 0x100 {
				in := []byte{'x', byte(lead), byte(trail), '!', '!'}
				was, err := enc.NewDecoder().Bytes(in)
				if err != nil {
					t.Fatal(err)
				}
				got, err := Decode(enc, in)
				private := label == "shift_jis" && lead >= 0xf0 && lead <= 0xf9 && trail >= 0x40 && trail != 0x7f
				if lost := string(was) == "x\uFFFD!!" && trail < utf8.RuneSelf && !private; lost {
					was = []byte("x\uFFFD" + string(rune(trail)) + "!!")
				}
				if err != nil || string(got) != string(was) {
					t.Errorf("%s: %x is %q, want %q (%v)", label, in, got, was, err)
				}
			}
		}
	}
}

func BenchmarkPairs(b *testing.B) {
	enc, _ := Lookup("shift_jis")
	for name, unit := range map[string]string{"text": "\x82\xa0\x83A <a href=/x>y</a>\n", "halves": "\x82A"} {
		body := bytes.Repeat([]byte(unit), 1<<20/len(unit))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := Decode(enc, body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/baseline", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := enc.NewDecoder().Bytes(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
