package crawl

import (
	"slices"
	"strings"
	"testing"
)

// TestAttributesAreDecoded: character references count in every attribute, and what is no character is U+FFFD in a link, once for each longest
// beginning of one.
func TestAttributesAreDecoded(t *testing.T) {
	for _, c := range []struct{ html, links string }{
		{"<a href='/a\x00b'><a href=/c\x00>", "/a%EF%BF%BDb /c%EF%BF%BD"},
		{"<a href='/a\xe2\x82b'><a href='/?\xf0\x9f\x98'>", "/a%EF%BF%BDb /?%EF%BF%BD"},
		{"<a href='/\xffa\xed\xa0\x80'>", "/%EF%BF%BDa%EF%BF%BD%EF%BF%BD%EF%BF%BD"},
		{"<a href=/no rel='no&#102;ollow'><a href=/no rel='x&#10;nofollow'><a href=/1 rel=nofollow\x00>", "/1"},
		{"<link rel='&#110;ext' href=/1><meta http-equiv='&#82;efresh' content='0;&#117;rl=/2&amp;amp;'>", "/1 /2&amp;"},
		{"<math><annotation-xml encoding='text&sol;html'><style><a href=/no></style>", ""},
		{"<iframe href=/no src=/1></iframe><iframe src=/2 href=/no></iframe><a src=/no href=/3>", "/1 /2 /3"},
		{"<frameset><frame href=/no src=/1>", "/1"},
		{"&#32;<frameset><frame src=/1>", "/1"}, {"&nbsp;<frameset><frame src=/no>", ""},
	} {
		var p page
		if p.read("http://h.test/d/p", []byte(c.html), "text/html; charset=utf-8", "shoal", false); !slices.Equal(p.links, onHost(c.links)) {
			t.Errorf("%q: %q, want %q", c.html, p.links, c.links)
		}
	}
	for _, doc := range []string{"<meta name=robots content='noindex&comma;nofollow'>", "<meta name='&#114;obots' content='no&#105;ndex nofollow'>", "<meta name=robots content='noindex\fnofollow'>"} {
		var p page
		if p.read("http://h.test/", []byte(doc), "text/html", "shoal", false); p.robots.unstored != "noindex" || !p.robots.nofollow {
			t.Errorf("%q: %+v", doc, p.robots)
		}
	}
}

// TestBasesNotOfTheWeb: with a <base> of another scheme relative links lead nowhere. "javascript" and "data", and what is no URL, do not count.
func TestBasesNotOfTheWeb(t *testing.T) {
	for _, c := range []struct{ base, links string }{
		{"ftp://x.test/y/", "/1"}, {"mailto:x", "/1"}, {" about:blank", "/1"}, {"file:///C:/y/", "/1"}, {"C:\\y\\", "/1"},
		{"data:,x", "/d/z /1 /r"}, {"JavaScript:x", "/d/z /1 /r"}, {"http://", "/d/z /1 /r"}, {"", "/d/z /1 /r"}, {"y/a:b", "/d/y/z /1 /r"}, {":x/", "/d/:x/z /1 /r"},
		{"ftp://", "/d/z /1 /r"}, {"foo://[bad/", "/d/z /1 /r"}, {"ftp://a b/", "/d/z /1 /r"}, {"ftp://ü b/", "/d/z /1 /r"}, {"ws://1.2.3.4.5/", "/d/z /1 /r"}, {"foo://a:b/", "/d/z /1 /r"},
		{"foo://x.test/", "/1"}, {"foo://%5b%25/", "/1"}, {"foo:bar", "/1"},
	} {
		for _, late := range []bool{false, true} {
			base, links := "<base href='"+c.base+"'><base href=/c/>", "<a href=z><a href=http://H.test/1><a href=/r>"
			doc := base + links
			if late {
				doc = links + base
			}
			var p page
			if p.read("http://h.test/d/p", []byte(doc), "text/html; charset=utf-8", "shoal", false); !slices.Equal(p.links, onHost(c.links)) {
				t.Errorf("%q, late %v: %q, want %q", c.base, late, p.links, c.links)
			}
			if p.read("http://h.test/d/p", []byte("<a href=/r><a href=http://H.test/1>"), "text/html", "shoal", false); !slices.Equal(p.links, onHost("/r /1")) {
				t.Errorf("after %q: %q", c.base, p.links)
			}
		}
	}
	var p page
	if p.read("http://h.test/", []byte("<base href='?\xe9'><a href=''>"), "text/html; charset=koi8-r", "shoal", false); !slices.Equal(p.links, onHost("/?%E9")) {
		t.Errorf("a base's query: %q", p.links)
	}
}

func onHost(paths string) (urls []string) {
	for _, path := range strings.Fields(paths) {
		urls = append(urls, "http://h.test"+path)
	}
	return urls
}
