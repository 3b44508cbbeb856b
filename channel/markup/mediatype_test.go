package markup

import "testing"

// TestTypesAsTheyAreMet: a type that is written badly, or twice, counts as browsers take it.
func TestTypesAsTheyAreMet(t *testing.T) {
	for in, want := range map[string]string{
		"text/html": "text/html", " TEXT/HTML ; charset=x": "text/html", "html": "text/html", "xhtml": "text/html", "xml": "text/xml", "text/html charset=utf-8": "text/html",
		"text/html, text/html": "text/html", "text/plain, text/html": "text/html", "text/html, */*": "text/html", "text/html,": "text/html", "text/html, nonsense": "text/html",
		`text/html; x="a, text/plain; b"`: "text/html", `text/html;x=", text/plain`: "text/html", `text/plain; x="\", text/html"`: "text/plain",
		"application/rss+xml;a=b": "application/rss+xml", "*/*": "", "*/*; q=1": "", "": "", "nonsense": "", "text/": "", "/html": "", "unknown/unknown": "", "application/unknown": "", "text/h\x00": "",
	} {
		if got := MediaType(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for contentType, want := range map[string]bool{"text/html": true, "application/xhtml+xml": true, "application/vnd.wap.xhtml+xml": true, "text/plain": false, "text/xml": false, "": false} {
		if IsHTML(contentType) != want {
			t.Errorf("%q is HTML: %v", contentType, !want)
		}
	}
}

// TestLabelsOfHeaders: a charset counts as Fetch reads parameters, with quotes that may have quotes in them.
func TestLabelsOfHeaders(t *testing.T) {
	for in, want := range map[string]string{
		`text/html; x="a\"; charset=utf-8"; charset=koi8-r`: "koi8-r", `text/html;charset="\g\b\k"`: "gbk", `text/html; charset="koi8-r`: "koi8-r", `text/html; charset="koi8-r\`: `koi8-r\`,
		`text/html; x="\\"; charset=koi8-r`: "koi8-r", `text/html; x="charset=utf-8"; charset="koi8-r"; y="a"`: "koi8-r", `text/html; charset="a\"b"`: `a"b`, `text/html; charset='koi8-r'`: "koi8-r",
		`text/html; x="a\", text/plain; charset=utf-8"; charset=koi8-r`: "koi8-r", `text/html; charset=""`: "", `text/html`: "",
	} {
		if got := HeaderLabel(in); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// TestDeclaredLabels are those of XML declarations as they are met.
func TestDeclaredLabels(t *testing.T) {
	for in, want := range map[string]string{
		`<?xml version="1.0" encoding="koi8-r"?>`: "koi8-r", `<?xml version='1.0' encoding = 'koi8-r' ?>`: "koi8-r", `<?xml version="1.0"encoding="koi8-r"?>`: "koi8-r", `<?xml ENCODING=' koi8-r '?>`: "koi8-r",
		`<?xml encoding="a" encoding="b"?>`: "a", `<?xml version="1.0"?><a encoding="b">`: "", `<?xml encoding="a`: "", `<?xml`: "", ` <?xml encoding="a"?>`: "", `<a encoding="b">`: "", "": "",
	} {
		if got := DeclaredLabel([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzUTF8(f *testing.F) {
	f.Add([]byte("<meta charset=koi8-r>\xcd"), "text/html")
	f.Add([]byte("<?xml encoding='utf-16'?>"), "application/xhtml+xml; charset=x, */*")
	f.Add([]byte("\xff\xfe<\x00"), `text/plain; charset="`)
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		before := string(body)
		if _, enc, name := UTF8(body, contentType); name == "" || name == "utf-8" && enc != nil || string(body) != before {
			t.Errorf("encoding %q, changed %v", name, string(body) != before)
		}
		MediaType(contentType)
		for z := NewTokenizer(body); ; {
			kind, token := z.Next(len(contentType)%2 == 1)
			if kind == EndOfFile {
				break
			}
			if kind == StartTag {
				z.Attributes(func(_, value []byte) { ValueBytes(value) })
				if held := holdsText(token); held != "" {
					z.RawText(held)
				}
			}
		}
	})
}
