package sitemap

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// entries writes what a document lists: URLs, those of sitemaps in brackets, each with its time.
func entries(text []byte, contentType string) (string, bool) {
	var out []string
	torn := false
	for e := range Open(text, contentType).Entries(&torn) {
		one := e.URL
		if e.Index {
			one = "[" + one + "]"
		}
		if e.Changed != "" {
			one += "@" + e.Changed
		}
		out = append(out, one)
	}
	return strings.Join(out, " "), torn
}

// TestAsTheyAreMet reads sitemaps and feeds as sites write them.
func TestAsTheyAreMet(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a sitemap", `<?xml version="1.0"?><urlset xmlns="x"><url><loc>http://h/a</loc><lastmod>2026-01-02</lastmod></url><url><loc>http://h/b</loc></url></urlset>`, "http://h/a@2026-01-02 http://h/b"},
		{"an index", `<sitemapindex><sitemap><loc>/1.xml</loc></sitemap><sitemap><lastmod>2026</lastmod><loc>/2.xml</loc></sitemap></sitemapindex>`, "[/1.xml] [/2.xml]@2026"},
		{"an index that says so late", `<?xml version="1.0"?><!-- ` + strings.Repeat("made by a program ", 500) + `--><sitemapindex><sitemap><loc>/1.xml</loc></sitemap></sitemapindex>`, "[/1.xml]"},
		{"an index that calls its sitemaps url", `<sitemapindex><url><loc>/1.xml</loc></url><url><loc>/2.XML.gz?x=1</loc></url><url><loc>/a</loc></url></sitemapindex>`, "[/1.xml] [/2.XML.gz?x=1] /a"},
		{"a sitemap that lists a file of XML", `<urlset><url><loc>/1.xml</loc></url></urlset>`, "/1.xml"},
		{"an index named in a comment", `<!-- no <sitemapindex> --><urlset><url><loc>/a</loc></url></urlset>`, "/a"},
		{"an index within a sitemap", `<urlset><url><loc>/a</loc></url><sitemap><loc>/1.xml</loc></sitemap></urlset>`, "/a [/1.xml]"},
		{"prefixes", `<sm:urlset xmlns:sm="x"><sm:url><sm:loc>/a</sm:loc><sm:lastmod>2026</sm:lastmod></sm:url></sm:urlset>`, "/a@2026"},
		{"prefixes of entries only", `<urlset xmlns:ns0="x"><ns0:url><ns0:loc>/a</ns0:loc></ns0:url></urlset>`, "/a"},
		{"a prefix of the root only", `<ns0:sitemapindex><sitemap><loc>/1.xml</loc></sitemap></ns0:sitemapindex>`, "[/1.xml]"},
		{"a prefix beside elements without one", `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:sm='http://www.sitemaps.org/schemas/sitemap/0.9'><url><sm:loc>/a</sm:loc><SM:lastmod>2026</SM:lastmod><image:loc>/i</image:loc></url></urlset>`, "/a@2026"},
		{"two prefixes", `<a:urlset xmlns:a="http://www.google.com/schemas/sitemap/0.84/" xmlns:b=" https://www.sitemaps.org/schemas/sitemap/0.9 "><a:url><b:loc>/a</b:loc></a:url><b:url><a:loc>/b</a:loc></b:url></a:urlset>`, "/a /b"},
		{"a prefix that its element binds", `<sitemapindex><sitemap><x:loc xmlns:x="http://www.sitemaps.org/schemas/sitemap/0.9">/1.xml</x:loc></sitemap></sitemapindex>`, "[/1.xml]"},
		{"a prefix of a vocabulary for pictures", `<urlset xmlns:i="http://www.google.com/schemas/sitemap-image/1.1" xmlns:v="http://www.sitemaps.org/schemas/sitemap/0.9/x"><url><loc>/a</loc><i:loc>/no</i:loc><v:loc>/no</v:loc></url></urlset>`, "/a"},
		{"other vocabularies", `<urlset><url><loc>/a</loc><image:image><image:loc>/i.png</image:loc></image:image><video:video><video:player_loc>/v</video:player_loc></video:video><news:lastmod>1999</news:lastmod></url></urlset>`, "/a"},
		{"another vocabulary without a prefix", `<urlset><url><image xmlns="http://www.google.com/schemas/sitemap-image/1.1"><loc>/i.png</loc></image><loc>/a</loc></url><url><video xmlns="http://www.google.com/schemas/sitemap-video/1.1"><loc>/v</loc></url><url><loc>/b</loc></url></urlset>`, "/a /b"},
		{"names in capitals", `<URLSET><URL><LOC>/a</LOC><LastMod>2026</LASTMOD></URL></URLSET>`, "/a@2026"},
		{"space in tags", "<urlset >\n<url\n><loc\t>/a</loc ><lastmod >2026</ lastmod></url>< url >< loc > /b </ loc ></url></urlset>", "/a@2026 /b"},
		{"attributes", `<urlset><url id="1>2"><loc x='</loc>'>/a</loc></url></urlset>`, "/a"},
		{"CDATA", `<urlset><url><loc><![CDATA[ /a?b&c=<d> ]]></loc></url></urlset>`, "/a?b&c=<d>"},
		{"CDATA in the middle", `<urlset><url><loc>http://h/<![CDATA[a?b&c]]>=d&amp;e<![CDATA[&amp;]]></loc></url></urlset>`, "http://h/a?b&c=d&e&amp;"},
		{"an entry in CDATA", `<urlset><![CDATA[<url><loc>/no</loc></url>]]><url><loc>/a</loc></url></urlset>`, "/a"},
		{"references", `<urlset><url><loc>/?a=1&amp;b&#61;2&#x26;c&lt;&gt;&quot;&apos;</loc></url></urlset>`, `/?a=1&b=2&c<>"'`},
		{"a bare &", `<urlset><url><loc>/?a=1&copy=2&reg;&section=3&#x;&#0;&</loc></url></urlset>`, "/?a=1&copy=2&reg;&section=3&#x;&#0;&"},
		{"a reference to a reference", `<urlset><url><loc>/?a&amp;amp;b</loc></url></urlset>`, "/?a&amp;b"},
		{"comments", `<urlset><!-- <url><loc>/no</loc></url> --><url><loc>/a<!-- x --></loc><!-- <loc>/no</loc> --></url></urlset>`, "/a"},
		{"empty locs", `<urlset><url><loc></loc></url><url><loc/></url><url><loc> </loc></url><url><loc><!-- --></loc></url><url><loc>/a</loc></url></urlset>`, "/a"},
		{"an instruction", `<?xml-stylesheet href="<urlset>"?><urlset><?x <loc>/no</loc> ?><url><loc>/a</loc></url></urlset>`, "/a"},
		{"a doctype", `<!DOCTYPE urlset [<!ENTITY e "x">]><urlset><url><loc>/a&e;&f;&e</loc></url></urlset>`, "/ax&f;&e"},
		{"open entries", `<urlset><url><loc>/a<lastmod>2026</lastmod><url><loc>/b</url><loc>/c`, "/a@2026 /b"},
		{"a URL on each line", "http://h/a\r\n\n http://h/b \n# no\n", "http://h/a http://h/b"},
		{"lines that end in CR", "\xef\xbb\xbfhttp://h/a\rhttp://h/b\r\r\nhttp://h/d", "http://h/a http://h/b http://h/d"},
		{"an HTML page", `<!DOCTYPE html><html><head><title>404</title></head><loc>/no</loc></html>`, ""},
		{"nothing", "", ""},
		{"RSS", `<rss><channel><link>/</link><item><link>/a?x&amp;y</link><pubDate>Mon</pubDate></item><item><pubDate>Tue</pubDate><link><![CDATA[/b]]></link></item></channel></rss>`, "/ /a?x&y@Mon /b@Tue"},
		{"RSS with Atom in it", `<rss><channel><atom:link href="/feed" rel="self"/><item><link>/a</link><atom:updated>2026</atom:updated><source:link>/no</source:link></item></channel></rss>`, "/a"},
		{"RDF", `<rdf:RDF><channel><link>/</link></channel><item rdf:about="/no"><link>/a</link><dc:date>2026</dc:date></item></rdf:RDF>`, "/ /a@2026"},
		{"a guid alone", `<rss><channel><guid>http://no</guid><item><guid> http://a/1 </guid><pubDate>2026</pubDate></item><item><guid isPermaLink='false'>http://no</guid></item><item><guid>tag:no</guid></item><item><guid>http://no</guid><link>/b</link></item></channel></rss>`, "http://a/1@2026 /b"},
		{"Atom's link in an item", `<rss><channel><item><atom:link href='/a'/></item></channel></rss>`, "/a"},
		{"Atom's link by another prefix", `<rss xmlns:a10="http://www.w3.org/2005/Atom"><channel><a10:link href="/no"/><item><a10:link rel="alternate" href="/a"/></item></channel></rss>`, "/a"},
		{"a prefix that the entry binds", `<rss><channel><item xmlns:x='https://www.w3.org/2005/Atom/'><X:link href='/a'/><y:link xmlns:y="http://www.w3.org/2005/Atom" href="/b"/></item></channel></rss>`, "/a /b"},
		{"a prefix of another vocabulary", `<rss xmlns:a10="http://www.w3.org/2005/Atom/x"><channel><item><a10:link href="/no"/><link>/a</link></item></channel></rss>`, "/a"},
		{"a warning before RSS", "<br />\n<b>Warning</b>: x() in <b>/p/x.php</b> on line <b>3</b><br />\n<?xml version='1.0'?><rss><channel><item><link>/a</link></item></channel></rss>", "/a"},
		{"a warning before Atom with prefixes", `<p>Notice<br><a:feed xmlns:a="x"><a:link href="/f"/><a:entry><a:link href="/a"/></a:entry></a:feed>`, "/f /a"},
		{"a table before an index", `<table><tr><td>x</td></tr></table><sitemapindex><sitemap><loc>/s</loc></sitemap></sitemapindex>`, "[/s]"},
		{"a warning before a sitemap", `<b>Warning</b><sm:urlset><sm:url><sm:loc>/a</sm:loc></sm:url></sm:urlset>`, "/a"},
		{"a feed within something", `<data><feed><link href="/no"/></feed></data>`, ""},
		{"a sitemap within something", `<data><urlset><url><loc>/a</loc></url></urlset></data>`, "/a"},
		{"a page before a feed", `<html><p>x</html><rss><item><link>/no</link></item></rss>`, ""},
		{"much before a feed", strings.Repeat("<b>Warning</b> ", maxDirt/14+1) + `<rss><item><link>/no</link></item></rss>`, ""},
		{"links of other kinds", `<feed><link rel=hub href=/no /><entry><link rel=Enclosure href=/no /><link rel='edit' href='/no'/><link href='/a'/><link rel=replies href=/b /></entry></feed>`, "/a /b"},
		{"Atom", `<feed><link rel=self href=/f/><updated>2025</updated><entry><published>2024</published><link href='/a&amp;b'/><updated>2026</updated></entry></feed>`, "/a&b@2026"},
		{"Atom with prefixes", `<a:feed xmlns:a="x"><a:entry><a:link href="/a"></a:link><a:updated>2026</a:updated></a:entry></a:feed>`, "/a@2026"},
		{"a feed in capitals", `<RSS><CHANNEL><ITEM><LINK>/a</LINK><PUBDATE>Mon</PUBDATE></ITEM></CHANNEL></RSS>`, "/a@Mon"},
		{"a feed with comments", `<rss><!-- <item><link>/no</link></item> --><item><link><!-- /no -->/a</link></item></rss>`, "/a"},
		{"empty links", `<rss><item><link/></item><item><link></link></item><feed:link/><item><link>/a</link></item></rss>`, "/a"},
	} {
		if got, torn := entries([]byte(c.text), ""); got != c.want || torn != strings.HasSuffix(c.text, "/c") {
			t.Errorf("%s: %q, torn %v; want %q", c.name, got, torn, c.want)
		}
	}
}

// TestEntitiesThatTheDocumentDeclares: XML's readers put their texts in, and what a document has them say over and over costs no more than its length.
func TestEntitiesThatTheDocumentDeclares(t *testing.T) {
	const shop = `<?xml version="1.0"?><!DOCTYPE urlset [
  <!ENTITY shop "http://h/shop">
  <!ENTITY % no "http://h/no"><!ENTITY outside SYSTEM "http://h/no.ent">
  <!ENTITY list '&shop;/list?a&#38;b=&amp;'>
  <!ENTITY shop "http://h/second">
]>`
	for text, want := range map[string]string{
		`<urlset><url><loc>&shop;/1</loc></url><url><loc>&list;</loc></url><url><loc><![CDATA[/&shop;]]></loc></url></urlset>`: "http://h/shop/1 http://h/shop/list?a&b=& /&shop;",
		`<urlset><url><loc>/?a&no;&outside;&shop=1</loc></url></urlset>`:                                                       "/?a&no;&outside;&shop=1",
		`<sitemapindex><sitemap><loc>&shop;.xml</loc></sitemap></sitemapindex>`:                                                "[http://h/shop.xml]",
		`<feed><entry><link href="&shop;/2"/></entry></feed>`:                                                                  "http://h/shop/2",
	} {
		if got, _ := entries([]byte(shop+text), ""); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	late := strings.Repeat(" ", maxDeclarations) + `<!DOCTYPE urlset [<!ENTITY a "/no">]><urlset><url><loc>&a;</loc></url></urlset>`
	if got, _ := entries([]byte(late), ""); got != "&a;" {
		t.Errorf("declared late: %q", got)
	}
	long := `<!DOCTYPE urlset [<!ENTITY a "` + strings.Repeat("a", maxEntityText) + `">`
	for name := 'b'; name <= 'z'; name++ {
		long += fmt.Sprintf(`<!ENTITY %c "%s">`, name, strings.Repeat(fmt.Sprintf("&%c;", name-1), 10))
	}
	d := Open([]byte(long+`]><urlset><url><loc>/`+strings.Repeat("&a;", 20)+`</loc></url>`+strings.Repeat("<url><loc>/&a;&z;</loc></url>", 1000)+`</urlset>`), "")
	total := 0
	for e := range d.Entries(nil) {
		total += len(e.URL)
	}
	if total < 1000*len("/&a;&z;") || total > 2*len(d.text) {
		t.Errorf("a document of %d octets has URLs of %d", len(d.text), total)
	}
}

// TestOnlyPagesOfEntries: of the links of a feed only those are taken that lead to pages.
func TestOnlyPagesOfEntries(t *testing.T) {
	for text, want := range map[string]string{
		`<link rel="self" href="/no"/>`: "", `<link rel="via" href="/no"/>`: "", `<link rel=" Self " href="/no"/>`: "",
		`<link rel="http://www.iana.org/assignments/relation/self" href="/no"/>`:      "",
		`<link rel="replies" type="application/atom+xml" href="/no"/>`:                "",
		`<link rel="replies" type="Application/RSS+xml; charset=utf-8" href="/no"/>`:  "",
		`<link rel="replies" type="text/html" href="/a"/>`:                            "/a",
		`<link rel="replies" href="/a"/>`:                                             "/a",
		`<link rel="alternate" type="application/atom+xml" href="/a"/>`:               "/a",
		`<link rel="http://www.iana.org/assignments/relation/alternate" href="/a" />`: "/a",
		`<link rel="" href="/a"/>`:                                                    "/a",
	} {
		if got, _ := entries([]byte(`<feed><entry>`+text+`</entry></feed>`), ""); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestListsWithTagsInURLs: a "<" in a URL does not make XML of a list.
func TestListsWithTagsInURLs(t *testing.T) {
	for text, want := range map[string]string{
		"http://h/1\nhttp://h/a?x=<y>\nhttp://h/2":                   "http://h/1 http://h/a?x=<y> http://h/2",
		"\n# all\n https://h/<b>\r\nhttps://h/2\n":                   "https://h/<b> https://h/2",
		"http://h/1\nhttp://h/<html>\n":                              "http://h/1 http://h/<html>",
		"http://h/1\n<urlset><url><loc>/a</loc></url></urlset>":      "/a",
		"Warning: <b>x</b>\nhttp://h/1\n":                            "",
		"<b>\nhttp://h/1\nhttp://h/2":                                "",
		"\n \n<urlset><url><loc>\nhttp://h/1\n</loc></url></urlset>": "http://h/1",
	} {
		if got, _ := entries([]byte(text), "text/plain"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestUnseenCharactersAroundURLs: marks without a width that stand around a URL are no part of it.
func TestUnseenCharactersAroundURLs(t *testing.T) {
	for text, want := range map[string]string{
		"<urlset><url><loc>\ufeff http://h/a\u200b</loc><lastmod>\u200b2026</lastmod></url></urlset>":    "http://h/a@2026",
		"<urlset><url><loc>&#xFEFF;http://h/a&#8203;\n</loc></url><url><loc>\u200b</loc></url></urlset>": "http://h/a",
		"<feed><entry><link href='\ufeffhttp://h/a '/></entry></feed>":                                   "http://h/a",
		"http://h/a\u200b\n\u200b\n\ufeffhttp://h/b":                                                     "http://h/a http://h/b",
		"<urlset><url><loc>http://h/a\u200bb</loc></url></urlset>":                                       "http://h/a\u200bb",
	} {
		if got, _ := entries([]byte(text), "text/xml; charset=utf-8"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestItemsThatSayOnlyWhatTheyAreAbout: items of RSS 1.0 have their address in rdf:about, too.
func TestItemsThatSayOnlyWhatTheyAreAbout(t *testing.T) {
	for text, want := range map[string]string{
		`<item rdf:about="http://h/a"><title>a</title><dc:date>2026</dc:date></item><item rdf:about="http://h/b"/>`: "http://h/a@2026 http://h/b",
		`<item rdf:about="http://h/no"><link>http://h/a</link></item>`:                                              "http://h/a",
		`<item rdf:about="urn:no"><title>a</title></item><item rdf:about=""></item>`:                                "",
		`<channel rdf:about="http://h/no"><title>a</title></channel>`:                                               "",
	} {
		if got, _ := entries([]byte(`<rdf:RDF>`+text+`</rdf:RDF>`), ""); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestEncodings reads one sitemap in several encodings, named in several ways.
func TestEncodings(t *testing.T) {
	const plain = `<urlset><url><loc>http://h/é</loc></url></urlset>`
	little, _ := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().String(plain)
	big, _ := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewEncoder().String(plain)
	latin, _ := charmap.ISO8859_1.NewEncoder().String(plain)
	greek, _ := charmap.ISO8859_7.NewEncoder().String(`<urlset><url><loc>http://h/α</loc></url></urlset>`)
	for i, c := range []struct{ text, contentType, want string }{
		{plain, "", "é"}, {plain, "text/xml", "é"}, {"\xef\xbb\xbf" + plain, "text/xml; charset=iso-8859-1", "é"},
		{"\xff\xfe" + little, "text/xml; charset=utf-8", "é"}, {"\xfe\xff" + big, "", "é"}, {little, "", "é"}, {big, "text/xml", "é"},
		{latin, "application/xml; charset=ISO-8859-1", "é"}, {latin, `text/xml; charset="latin1"`, "é"}, {`<?xml version="1.0" encoding="ISO-8859-1"?>` + latin, "application/xml", "é"},
		{`<?xml version='1.0' encoding = 'windows-1252' ?>` + latin, "", "é"}, {`<?xml version="1.0" encoding="ISO-8859-1"?>` + plain, "text/xml; charset=utf-8", "é"},
		{`<?xml version="1.0" encoding="iso-8859-7"?>` + greek, "text/xml", "α"}, {"\n" + `<?xml version="1.0" encoding="ISO-8859-1"?>` + latin, "", "é"}, {latin, "text/xml", "é"}, {plain + "\xc3", "text/xml", "é"}, {`<?xml version="1.0" encoding="UTF-16"?>` + plain, "", "é"}, {`<?xml version="1.0" encoding="nonsense"?>` + plain, "", "é"},
	} {
		if got, _ := entries([]byte(c.text), c.contentType); got != "http://h/"+c.want {
			t.Errorf("%d, %q: %q", i, c.contentType, got)
		}
	}
	if got, _ := entries([]byte("\xff\xfeh\x00t\x00t\x00p\x00:\x00/\x00/\x00h\x00/\x00\n\x00"), "text/plain"); got != "http://h/" {
		t.Errorf("a list in UTF-16: %q", got)
	}
}

// TestBases: relative URLs of a feed are relative to what xml:base says around them.
func TestBases(t *testing.T) {
	for text, want := range map[string]string{
		`<feed xml:base="http://h/f/"><link href="s"/><entry xml:base="e/"><link xml:base="l/" href="a"/><link href="b"/></entry><entry><link href="c"/></entry></feed>`: "s [http://h/f/] a [http://h/f/ e/ l/] b [http://h/f/ e/] c [http://h/f/]",
		`<rss xml:base="/r/"><channel xml:base='c/'><item><link>a</link></item></channel></rss>`:                                                                         "a [/r/ c/]",
		`<rss><channel><item xml:base='i/'><link>a</link></item><item><link>b</link></item></channel></rss>`:                                                             "a [i/] b []",
	} {
		var got []string
		for e := range Open([]byte(text), "").Entries(nil) {
			got = append(got, e.URL, fmt.Sprint(e.Base))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %s, want %s", text, s, want)
		}
	}
}

func TestLines(t *testing.T) {
	var got []string
	for e := range Open([]byte("<urlset>\n<url>\n<loc>\n/a</loc></url><url><loc>/b</loc>\n</url>\n\n<url><loc>/c</loc></url></urlset>"), "").Entries(nil) {
		got = append(got, fmt.Sprint(e.Line))
	}
	if s := strings.Join(got, " "); s != "3 4 7" {
		t.Error(s)
	}
	got = nil
	for e := range Open([]byte("/a\r\n/b\r/c\n\n/d"), "").Entries(nil) {
		got = append(got, fmt.Sprint(e.Line))
	}
	if s := strings.Join(got, " "); s != "1 2 3 5" {
		t.Errorf("of a list: %s", s)
	}
}

func FuzzEntries(f *testing.F) {
	f.Add([]byte(`<sm:urlset><sm:url><sm:loc>/a&amp;b<![CDATA[c]]></sm:loc></sm:url></sm:urlset>`), "text/xml")
	f.Add([]byte(`<rss><item><link>/a</link><pubDate>x</pubDate></item><link href='/b'/></rss>`), "application/rss+xml; charset=latin1")
	f.Add([]byte("\xff\xfe<\x00l\x00"), "")
	f.Add([]byte("http://h/\n"), "text/plain")
	f.Add([]byte(`<!DOCTYPE urlset [<!ENTITY a "b&#38;"><!ENTITY c '&a;&a;'>]><urlset><url><loc>/&c;</loc></url></urlset>`), "")
	f.Fuzz(func(t *testing.T, text []byte, contentType string) {
		n := 0
		for e := range Open(text, contentType).Entries(nil) {
			if n++; e.URL == "" || e.URL != strings.TrimSpace(e.URL) || e.Line < 1 || e.Line > 1+len(text) {
				t.Errorf("%+v", e)
			}
		}
		if n > len(text) {
			t.Errorf("%d entries of %d octets", n, len(text))
		}
	})
}
