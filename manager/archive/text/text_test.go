package text

import (
	"errors"
	"strings"
	"testing"

	"github.com/markusmobius/go-trafilatura"
	"time"

	"shoal/internal/lab/processor"
)

var article = "<html lang=en><head><title>A  title</title><script>var x = 'no'</script></head><body><nav><a href=/>Home</a> <a href=/b>Menu</a></nav><article><h1>A title</h1>" +
	strings.Repeat("<p>The quick brown fox jumps over the lazy dog, and it does so again in every paragraph of this article.</p>", 8) +
	"</article><footer>Imprint</footer></body></html>"

func TestExtract(t *testing.T) {
	got, err := Extract("http://example.org/", "text/html; charset=utf-8", []byte(article))
	if err != nil || got.Title != "A title" || got.Lang != "en" || !strings.Contains(got.Body, "quick brown fox") || strings.Contains(got.Body, "var x") {
		t.Errorf("article: %+v, %v", got, err)
	}
	got, err = Extract("http://example.org/", "text/html", []byte("<title>Few</title><p>Only <b>three</b> words<script>x</script>"))
	if err != nil || !strings.Contains(got.Body, "Only three words") || strings.Contains(got.Body, "x") {
		t.Errorf("few words: %+v, %v", got, err)
	}
	got, err = Extract("http://example.org/", "text/plain; charset=iso-8859-1", []byte("caf\xe9 "))
	if err != nil || got.Body != "café" {
		t.Errorf("plain: %+v, %v", got, err)
	}
	for _, c := range []struct{ kind, body string }{{"image/png", "x"}, {"application/json", "{}"}, {"text/html", ""}} {
		if _, err := Extract("http://example.org/", c.kind, []byte(c.body)); !errors.Is(err, ErrNoText) {
			t.Errorf("%s %q: %v", c.kind, c.body, err)
		}
	}
	if _, err := Extract("http://example.org/", "text/html", []byte(strings.Repeat("<b>", MaxTree+10))); err != nil && !errors.Is(err, ErrNoText) {
		t.Errorf("deep document: %v", err)
	}
}

func FuzzExtract(f *testing.F) {
	f.Add("text/html", []byte(article))
	f.Add("text/html; charset=utf-16", []byte("\xff\xfe<"))
	f.Add("text/plain", []byte("\xff"))
	f.Fuzz(func(t *testing.T, kind string, b []byte) {
		before := processor.Time(t)
		got, err := Extract("http://example.org/", kind, b)
		if d := processor.Time(t) - before; d > time.Second {
			t.Errorf("%d bytes took %v of a processor", len(b), d)
		}
		if err == nil && (len(got.Body) > MaxOut || strings.ToValidUTF8(got.Body, "") != got.Body) {
			t.Errorf("text of %d bytes", len(got.Body))
		}
	})
}

func BenchmarkExtract(b *testing.B) {
	b.SetBytes(int64(len(article)))
	for b.Loop() {
		if _, err := Extract("http://example.org/", "text/html", []byte(article)); err != nil {
			b.Fatal(err)
		}
	}
}

// Text is found without the parts of go-trafilatura that pass documents on to unmaintained modules.
func TestOptionsLeaveUnmaintainedModulesOff(t *testing.T) {
	o := options(nil)
	if o.EnableFallback || o.FallbackCandidates != nil || o.HtmlDateMode != trafilatura.Disabled || o.TargetLanguage != "" || o.EnableLog {
		t.Errorf("%+v", o)
	}
}

// TestTextOfTypesAsTheyAreMet: a type that is written badly does not cost a page its text, as it does not cost the crawl its links.
func TestTextOfTypesAsTheyAreMet(t *testing.T) {
	for contentType, readable := range map[string]bool{
		"text/html charset=utf-8": true, "text/html, text/html": true, "text/html; charset=utf-8, text/html": true, "html": true, "*/*": true, "": true, "TEXT/HTML": true, "unknown/unknown": true,
		"application/vnd.wap.xhtml+xml": true, "text/plain, text/html": true, "nonsense": true, "text/html, image/png": false, "application/pdf": false, "text/css": false,
	} {
		got, err := Extract("http://example.org/", contentType, []byte(article))
		if found := strings.Contains(got.Body, "quick brown fox"); found != readable || readable != (err == nil) || Readable(contentType) != readable {
			t.Errorf("%q: %v, text %v, readable %v", contentType, err, found, Readable(contentType))
		}
	}
	if got, err := Extract("http://example.org/", "*/*", []byte("%PDF-1.7\n\x00\x01"+article)); !errors.Is(err, ErrNoText) {
		t.Errorf("a PDF without a type: %+v", got)
	}
}

// TestTextOfXHTMLByItsRoot: XML whose root is XHTML's is a page, as it is for the crawl. Other XML has no text.
func TestTextOfXHTMLByItsRoot(t *testing.T) {
	const page = `<?xml version="1.0" encoding="koi8-r"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head><title>T</title></head><body><p>` + "\xcd\xc9\xd2</p></body></html>"
	for _, contentType := range []string{"text/xml", "application/xml", "xml", ""} {
		if got, err := Extract("http://example.org/", contentType, []byte(page)); err != nil || !strings.Contains(got.Body, "мир") || !Readable(contentType) {
			t.Errorf("%q: %+v, %v", contentType, got, err)
		}
	}
	declared := strings.Replace(page, "<!DOCTYPE html>", "<!DOCTYPE html [\n<!ENTITY e 'no'>\n]>", 1)
	for _, contentType := range []string{"text/xml", "application/xhtml+xml"} {
		if got, err := Extract("http://example.org/", contentType, []byte(declared)); err != nil || got.Body != "мир" {
			t.Errorf("%q, with declarations: %+v, %v", contentType, got, err)
		}
	}
	for _, doc := range []string{"<rss><title>News</title></rss>", "<html><p>of no namespace</p></html>", "<urlset><url><loc>http://a.test/</loc></url></urlset>"} {
		if got, err := Extract("http://example.org/", "text/xml", []byte(doc)); !errors.Is(err, ErrNoText) {
			t.Errorf("%s: %+v, %v", doc, got, err)
		}
	}
}

// TestTextInItsEncoding: the text is read in the encoding in which the crawl reads the links.
func TestTextInItsEncoding(t *testing.T) {
	late := strings.Repeat("<!-- a long beginning of nothing but ASCII -->\n", 30)
	for _, c := range []struct{ name, contentType, doc, want string }{
		{"an XML declaration", "text/html", "<?xml version='1.0' encoding='koi8-r'?><html><body><p>\xcd\xc9\xd2", "мир"},
		{"an XML declaration of XHTML", "application/xhtml+xml", "<?xml version='1.0' encoding='koi8-r'?><html><body><p>\xcd\xc9\xd2", "мир"},
		{"undeclared UTF-8 after 1,024 octets", "text/html", "<html><body>" + late + "<p>мир", "мир"},
		{"a <meta> after 1,024 octets", "text/html", "<html><head>" + late + "<meta charset=koi8-r></head><body><p>\xcd\xc9\xd2", "мир"},
		{"a charset that means nothing", "text/html; charset=nonsense", "<meta charset=koi8-r><p>\xcd\xc9\xd2", "мир"},
		{"a list of types", "text/html; charset=koi8-r, text/html", "<p>\xcd\xc9\xd2", "мир"},
		{"plain text that quotes a <meta>", "text/plain", "<meta charset=koi8-r> мир", "<meta charset=koi8-r> мир"},
		{"plain text in windows-1252", "text/plain", "caf\xe9", "café"},
	} {
		if got, err := Extract("http://example.org/", c.contentType, []byte(c.doc)); err != nil || got.Body != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got.Body, err, c.want)
		}
	}
	cut := "<p>" + strings.Repeat("é", MaxIn/2) // the last character is cut
	if got, err := Extract("http://example.org/", "text/html", []byte(cut)); err != nil || strings.ContainsAny(got.Body, "Ã\uFFFD") {
		t.Errorf("a document that was cut within a character: %.20q, %v", got.Body, err)
	}
}

// TestTextOfShortPages: the text of pages with few words is what a reader sees, with spaces where a browser breaks lines and nowhere else.
func TestTextOfShortPages(t *testing.T) {
	const gtm = `<noscript><iframe src="https://www.example.net/ns.html?id=GTM-1" height=0></iframe></noscript>`
	items := "<h1>Opening hours</h1><ul><li>Monday 9-12</li><li>Tuesday 13-17</li><li>Closed on <b>Wed</b>nesdays</li></ul>"
	hours := "Opening hours Monday 9-12 Tuesday 13-17 Closed on Wednesdays"
	for _, c := range []struct{ name, doc, title, want string }{
		{"a list", "<title>Opening hours</title>" + items, "Opening hours", hours},
		{"a tag manager", "<title>Opening hours</title><body>" + gtm + items, "Opening hours", hours},
		{"a long title", "<title>" + strings.Repeat("Opening hours ", 9) + "</title>" + items, strings.TrimSpace(strings.Repeat("Opening hours ", 9)), hours},
		{"no paragraphs", "<body>" + gtm + strings.Repeat("<div>"+items+"</div>", 3), "Opening hours", hours + " " + hours + " " + hours},
		{"an article", "<article>" + strings.Repeat("<h2>Head</h2><div>Some te<i>x</i>t of this</div>", 6) + "</article>", "Head", strings.TrimSpace(strings.Repeat("Head Some text of this ", 6))},
		{"frames", `<title>T</title><frameset><frame src=a><noframes><body><p>Look <a href=a>here</a>.</p>` + "</body></noframes></frameset>", "T", "Look here."},
		{"frames that nobody shows", "<p>One<br>two<iframe src=x><b>no</b></iframe><noembed><i>no</i></noembed><noframes><p>no</noframes><template><p>no</template>", "", "One two"},
		{"a drawing", "<svg><title>Logo</title></svg><p>Words", "", "Logo Words"},
		{"a drawing before the title", "<body><svg><title>Logo</title></svg><title>Page</title><p>Words", "Page", "Logo Words"},
	} {
		if got, err := Extract("http://example.org/", "text/html", []byte(c.doc)); err != nil || got.Body != c.want || got.Title != c.title {
			t.Errorf("%s: %q, title %q, %v; want %q, %q", c.name, got.Body, got.Title, err, c.want, c.title)
		}
	}
}

// TestTextBeyondMeasure: a document that is nested deeper than the parser reads, or has too many nodes, has its words and its title.
func TestTextBeyondMeasure(t *testing.T) {
	const begins = `<html lang="de"><head><title>A &amp; B</title><style>p{}</style></head><body><noscript><p>no</p></noscript><script>no</script>`
	for name, middle := range map[string]string{"deep": strings.Repeat("<div>", 600), "many": strings.Repeat("<br>", MaxTree)} {
		got, err := Extract("http://example.org/", "text/html", []byte(begins+middle+"<h1>He<b>a</b>d</h1><p>w&ouml;rds"))
		if err != nil || got != (Text{Title: "A & B", Lang: "de", Body: "Head wörds"}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
