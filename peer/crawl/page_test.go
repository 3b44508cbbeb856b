package crawl

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"shoal/channel"
	"shoal/channel/markup"
)

// TestLinksAsTheStandardHasThem reads markup in which a link, or something around it, is written in a way of its own.
func TestLinksAsTheStandardHasThem(t *testing.T) {
	for _, c := range []struct{ name, html, links string }{
		{"an open svg", `<svg><path d=x><a href=/1>x</a><p><a href=/2>`, "/1 /2"},
		{"an open svg in a list", `<ul><li><svg><g></li></ul><script>"<a href=/no>"</script><a href=/1>`, "/1"},
		{"an svg that closes itself", `<svg/><style><a href=/no></style><a href=/1>`, "/1"},
		{"a math that closes itself", `<math/><a href=/1><title><a href=/no></title><a href=/2>`, "/1 /2"},
		{"an open math", `<p><math><mi>x<a href=/1><mtext><script><a href=/no></script></math><a href=/2>`, "/1 /2"},
		{"links of a picture", `<svg><a href=/1><text>x</text></a><a xlink:href=/2><A XLINK:HREF=/no href=/3></svg>`, "/1 /2 /3"},
		{"xlink elsewhere", `<a xlink:href=/no><math><a xlink:href=/no></math>`, ""},
		{"a style in a picture holds markup", `<svg><style><a href=/1></style></svg><style><a href=/no></style>`, "/1"},
		{"HTML in a picture", `<svg><foreignObject><style><a href=/no></style><div><a href=/1></foreignObject></div></foreignObject><style><a href=/2></svg>`, "/1 /2"},
		{"what breaks out of a picture", `<svg><g><div><style><a href=/no></style></g></svg><a href=/1>`, "/1"},
		{"parts of a table in no table", `<svg><desc><td></desc><style><a href=/1></style></svg><math><mi><tr><![CDATA[<a href=/no>]]></mi><style><a href=/2></style>`, "/1 /2"},
		{"a cell after a picture in a cell", `<table><tr><td><svg><desc><td></td><![CDATA[><a href=/1>]]></table>`, "/1"},
		{"a second head or body", `<svg><foreignObject><body></foreignObject><style><a href=/1></style></svg><svg><desc><head></desc><style><a href=/2></style></svg>`, "/1 /2"},
		{"ends of head and document", `<html><head><svg></head></html><style><a href=/1></style>`, "/1"},
		{"a paragraph in a picture", `<svg><foreignObject><p>x<div>y</div></foreignObject><style><a href=/1></style></svg><svg><foreignObject><p>x<p>y</p></foreignObject><title/><a href=/2></svg>`, "/1 /2"},
		{"an open paragraph in a picture", `<svg><foreignObject><p>x</foreignObject><style><a href=/no></style>`, ""},
		{"headings end each other", `<h2><svg></h1><style><a href=/no></style><svg><desc><h1>x</h2></desc><style><a href=/1></style>`, "/1"},
		{"an end of what is not open", `<desc><svg></fieldset><style><a href=/1></style>`, "/1"},
		{"an old font breaks out, a new one does not", `<svg><font><style><a href=/1></style><font color=red><style><a href=/no></style>`, "/1"},
		{"a section of CDATA in a picture", `<svg><desc><![CDATA[<a href=/no>]]></desc><a href=/1></svg><![CDATA[<a href=/2>]]>`, "/1"},
		{"a template's neighbours", `<a href=/1><template><base href=/x/><meta name=robots content=nofollow><a href=2></template><a href=3>`, "/1 /d/2 /d/3"},
		{"short comments", `<!--><a href=/1><!---><a href=/2><!----><a href=/3><!-- --!><a href=/4><!--- -> ---><a href=/5><!-- --`, "/1 /2 /3 /4 /5"},
		{"comments that are none", `<?php <a href=/no>?><a href=/1></ <a href=/no><a href=/2></><a href=/3><!DOCTYPE "<a href=/no>"><a href=/4>`, "/1 /2 /3 /4"},
		{"a slash for a space", `<a/href=/1><a/b/href="/2"/><a / href='/3'/x>`, "/1 /2 /3"},
		{"quotes of a value", `<a href='"/1"'><a href=/2"><a href="'/3'"><a href=x'y>`, `/d/%22/1%22 /2%22 /d/'/3' /d/x'y`},
		{"no space between attributes", `<a class="x"href="/1"id='y'><a title='>'href=/2>`, "/1 /2"},
		{"odd names", `<a =href=/no href=/1><a "href=/no href=/2><a href = /3 ><a href=/4 href=/no><a HREF=/5>`, "/1 /2 /3 /4 /5"},
		{"a value with a slash at its end", `<a href=/1/><a href=/2/ />`, "/1/ /2/"},
		{"no value", `<a href><a href=>`, "/d/p"},
		{"a tag without an end", `<a href=/1><a href="/no><a href=/no>`, "/1"},
		{"less than", `1 < 2 <3 <a href=/1> << <a href=/2>`, "/1 /2"},
		{"a late base", `<a href=1><link rel=next href=2><base href=/b/><base href=/c/><a href=3>`, "/b/1 /b/2 /b/3"},
		{"the page before", `<link rel=prev href=/1><link rel="x Previous" href=/2><link rel=previously href=/no>`, "/1 /2"},
		{"a base that is none", `<base><base href=javascript:x><base href=/c/><a href=1>`, "/d/1"},
		{"a base in a picture", `<svg><base href=/c/></svg><a href=1>`, "/d/1"},
		{"after framesets", `<title>x</title><frameset><frame src=/1><frameset><frame src=/2></frameset><a href=/no><noframes><a href=/no></noframes></frameset><frame src=/no><a href=/no>`, "/1 /2"},
		{"a frameset too late", `<p>x<frameset><frame src=/no><a href=/1>`, "/1"},
		{"a frame without a frameset", `<frame src=/no><iframe src=/1><a href=/no></iframe><a href=/2>`, "/1 /2"},
		{"a script with a script", `<script><!--<script></script><a href=/no>--></script><a href=/1><script><!--></script><a href=/2>`, "/1 /2"},
		{"texts", `<textarea><a href=/no></textarea ><title><a href=/no></titles></title/><xmp><a href=/no></XMP><noscript><a href=/1></noscript><noembed><a href=/no></noembed>`, "/1"},
		{"plain text", `<a href=/1><plaintext><a href=/no></plaintext><a href=/no>`, "/1"},
		{"a NUL", "<a href=/1><a\x00 href=/no><a href=/2>", "/1 /2"},
		{"spaces around a value", "<a href=' \t\n/1 \r\n'><a href=\"\u00a0/2\">", "/1 /d/%C2%A0/2"},
	} {
		var want []string
		for _, path := range strings.Fields(c.links) {
			want = append(want, "http://h.test"+path)
		}
		var p page
		if p.read("http://h.test/d/p", []byte(c.html), "text/html; charset=utf-8", "shoal", false); !slices.Equal(p.links, want) {
			t.Errorf("%s: %q, want %q", c.name, p.links, want)
		}
		if p.robots.nofollow {
			t.Errorf("%s: nofollow", c.name)
		}
	}
}

// TestXHTML: in XHTML any element may close itself, and a section of CDATA may stand anywhere. Served as HTML the same document means something else.
func TestXHTML(t *testing.T) {
	const text = `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="x"/></head><body><a href="/1"/><template/><iframe src="/2"/>` +
		`<p><![CDATA[<a href="/no">]]></p><textarea/><a href="/3">x</a><script>//<![CDATA[
"</p><a href=/no>" //]]></script></body></html>`
	for _, c := range []struct {
		contentType string
		want        []string
	}{
		{"application/xhtml+xml", onHost("/1 /2 /3")}, {"application/vnd.wap.xhtml+xml", onHost("/1 /2 /3")}, {"text/html", nil},
		{"application/xml", onHost("/1 /2 /3")}, {"text/xml; charset=utf-8", onHost("/1 /2 /3")}, {"", onHost("/1 /2 /3")}, {"*/*", onHost("/1 /2 /3")},
	} {
		var p page
		if p.read("http://h.test/", []byte(text), markup.ByRoot(c.contentType, []byte(text)), "shoal", false); !slices.Equal(p.links, c.want) {
			t.Errorf("%s: %q, want %q", c.contentType, p.links, c.want)
		}
	}
}

// TestXHTMLWithDeclarations: what a DOCTYPE declares between brackets is neither text nor links, and does not hide that a document is XHTML.
func TestXHTMLWithDeclarations(t *testing.T) {
	const text = "<?xml version='1.0'?><!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.1//EN' 'x' [\n<!ENTITY e '<b>no</b><a href=\"/no\">'>\n]>\n" +
		`<html xmlns="http://www.w3.org/1999/xhtml"><head><meta name="robots" content="nofollow"/></head><body><a href="/1">text</a></body></html>`
	for _, contentType := range []string{"application/xhtml+xml", "text/xml", "application/xml; charset=utf-8", ""} {
		var p page
		p.read("http://h.test/", []byte(text), markup.ByRoot(contentType, []byte(text)), "shoal", true)
		if !slices.Equal(p.links, onHost("/1")) || !p.robots.nofollow || string(p.text) != "text" {
			t.Errorf("%q: links %q, text %q, %+v", contentType, p.links, p.text, p.robots)
		}
	}
}

// markupParts are what TestLinksAgreeWithTheTree puts together. Not among them is what a tree leaves out although it is no markup that is read in
// another way (what stands in <select>, which the standard lets hold anything now), and of what x/net/html builds another tree than the standard:
// templates in MathML, raw text in framesets.
var markupParts = strings.Split(`<svg>,</svg>,<svg/>,<math>,</math>,<foreignObject>,</foreignObject>,<desc>,</desc>,<title>,</title>,<mi>,</mi>,<annotation-xml>,`+
	`<annotation-xml encoding=text/html>,</annotation-xml>,<div>,</div>,<p>,</p>,<table>,</table>,<tr>,<td>,</td>,<script>,</script>,<style>,</style>,<textarea>,`+
	`</textarea>,<!--,-->,<!-->,<!--->,--!>,<![CDATA[,]]>,<g>,</g>,<path/>,<font>,<font color=red>,<b>,</b>,<span>,</span>,x, ,<li>,</li>,<ul>,`+
	`</ul>,<iframe>,</iframe>,<xmp>,</xmp>,<br/>,</br>,<base href=/b/>,<head>,</head>,<body>,</body>,`+
	`</html>,<i>,</i>,<h1>,</h1>,<img>,<input type=hidden>,<input>,',",<,</,</>,<?x>,<!x>,<script/>,<mglyph>,<desc/>,<section>,</section>`, ",")

// TestLinksAgreeWithTheTree compares links with those of the tree that x/net/html builds, in documents put together at random.
func TestLinksAgreeWithTheTree(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	links, differ := 0, 0
	for range 20_000 {
		var doc strings.Builder
		for k := range 2 + rng.IntN(10) {
			doc.WriteString(markupParts[rng.IntN(len(markupParts))])
			switch rng.IntN(6) {
			case 0:
				fmt.Fprintf(&doc, "<a href=l%d>", k)
			case 1:
				fmt.Fprintf(&doc, "<a/href='l%d'/>", k)
			case 2:
				fmt.Fprintf(&doc, "<A title=\"<a href=no>\"href = \"l%d\"id=x>y</a>", k)
			}
		}
		doc.WriteString("<a href=/last>")
		want, err := linksOfTree(doc.String())
		if err != nil {
			t.Fatal(err)
		}
		var p page
		p.read("http://h.test/d/p", []byte(doc.String()), "text/html; charset=utf-8", "shoal", false)
		got := slices.Sorted(slices.Values(p.links))
		links += len(want)
		if !slices.Equal(got, want) {
			if differ++; differ <= 10 {
				t.Logf("%s\n%q\n%q", doc.String(), got, want)
			}
		}
	}
	// Whether the end tag of an element that HTML does not know ends a picture within it depends on all that is open between the two, which a
	// crawler does not follow.
	if links < 20_000 || differ > 5 {
		t.Errorf("%d documents differ, of %d links", differ, links)
	}
}

func linksOfTree(doc string) ([]string, error) {
	tree, err := html.ParseWithOptions(strings.NewReader(doc), html.ParseOptionEnableScripting(false))
	if err != nil {
		return nil, err
	}
	value := func(n *html.Node, key string) (string, bool) {
		for _, a := range n.Attr {
			if a.Namespace == "" && a.Key == key {
				return a.Val, true
			}
		}
		return "", false
	}
	base, based := "http://h.test/d/p", false
	for n := range tree.Descendants() {
		if href, ok := value(n, "href"); ok && n.Data == "base" && n.Namespace == "" && !based {
			based = true
			if b, err := channel.Resolve(base, href); err == nil {
				base = b
			}
		}
	}
	set := map[string]bool{}
	for n := range tree.Descendants() {
		href, ok := value(n, "href")
		if u, err := channel.Resolve(base, href); err == nil && ok && n.Data == "a" {
			set[u] = true
		}
	}
	var out []string
	for u := range set {
		out = append(out, u)
	}
	slices.Sort(out)
	return out, nil
}
