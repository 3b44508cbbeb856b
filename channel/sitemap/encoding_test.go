package sitemap

import (
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// TestLabelsThatMeanNothing: a header whose charset means nothing, or names what the text cannot be, hides neither the XML declaration nor what
// the text shows by itself.
func TestLabelsThatMeanNothing(t *testing.T) {
	const plain, declared = `<urlset><url><loc>http://h/ά</loc></url></urlset>`, `<?xml version='1.0' encoding="iso-8859-7"?>`
	greek, err := charmap.ISO8859_7.NewEncoder().String(plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, text, contentType, want string }{
		{"nonsense, and a declaration", declared + greek, "text/xml; charset=nonsense", "ά"},
		{"nonsense, and UTF-8", plain, "text/xml; charset=nonsense", "ά"},
		{"nonsense, and no UTF-8", greek, "text/xml; charset=nonsense", "Ü"},
		{"nonsense twice", `<?xml version="1.0" encoding="x"?>` + greek, "text/xml; charset=nonsense", "Ü"},
		{"UTF-16 over a declaration", declared + greek, "text/xml; charset=UTF-16", "ά"},
		{"UTF-16 over UTF-8", plain, "text/xml; charset=UTF-16", "ά"},
		{"UTF-16 over no UTF-8", greek, "text/xml; charset=utf-16be", "Ü"},
		{"UTF-16 declared over no UTF-8", `<?xml version="1.0" encoding="UTF-16"?>` + greek, "", "Ü"},
		{"apostrophes", greek, "text/xml; charset='iso-8859-7'", "ά"},
		{"a list of types", greek, "text/xml; charset=iso-8859-7, text/xml", "ά"},
		{"a list whose last type names none", declared + greek, "charset=koi8-r, text/xml", "ά"},
		{"no type before it", greek, "charset=iso-8859-7", "ά"},
		{"no semicolon", greek, "text/xml charset=iso-8859-7", "ά"},
		{"the header before the declaration", `<?xml version="1.0" encoding="koi8-r"?>` + greek, "text/xml; charset=iso-8859-7", "ά"},
	} {
		if got, _ := entries([]byte(c.text), c.contentType); got != "http://h/"+c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestUTF16WithoutAMark shows by the zeros of its beginning, or the header says so.
func TestUTF16WithoutAMark(t *testing.T) {
	const list = "http://h/é\nhttp://h/ά\n"
	for _, c := range []struct{ name, text, contentType string }{
		{"white space before a sitemap", "\r\n <urlset><url><loc>http://h/é</loc></url><url><loc>http://h/ά</loc></url></urlset>", "text/xml"},
		{"a list of URLs", list, "text/plain"}, {"a list that the header calls UTF-8", list, "text/plain; charset=utf-8"},
		{"the header says UTF-16", "#μίαλίστα μίαλίστα\n" + list, "text/plain; charset=utf-16"},
		{"the header says which", "#μία\n" + list, "text/plain; charset=utf-16le"},
	} {
		for _, order := range []unicode.Endianness{unicode.LittleEndian, unicode.BigEndian} {
			text, err := unicode.UTF16(order, unicode.IgnoreBOM).NewEncoder().String(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := entries([]byte(text), c.contentType); got != "http://h/é http://h/ά" {
				t.Errorf("%s, order %v: %q", c.name, order, got)
			}
		}
	}
	for _, text := range []string{"", "h", "/\x00", "http://h/\x00é"} {
		if got, _ := entries([]byte(text), "text/plain; charset=utf-16"); got == "" && len(text) > 2 {
			t.Errorf("%q: nothing", text)
		}
	}
}
