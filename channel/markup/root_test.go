package markup

import (
	"strings"
	"testing"
)

// TestXHTMLIsKnownByItsRoot: XML whose root is XHTML's is XHTML, with the charset that its header names. Other XML stays what it is.
func TestXHTMLIsKnownByItsRoot(t *testing.T) {
	const prolog = "\xef\xbb\xbf<?xml version='1.0'?>\n<!-- <rss> --><!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'x'>\n"
	const page = "<html\nlang='en' xmlns='http://www.w3.org/1999/xhtml'><a href='/x'/></html>"
	for _, c := range [][3]string{ // type, body, type by which it is read
		{"text/xml; charset=latin1", prolog + page, `application/xhtml+xml; charset="latin1"`}, {"application/xml", page, "application/xhtml+xml"}, {"", prolog + page, "application/xhtml+xml"},
		{"", page, ""}, {"text/html", prolog + page, "text/html"}, {"text/plain", prolog + page, "text/plain"}, {"application/rss+xml", prolog + page, "application/rss+xml"},
		{"text/xml", prolog + "<html><a/></html>", "text/xml"}, {"text/xml", "<rss xmlns:x='http://www.w3.org/1999/xhtml'/>", "text/xml"}, {"text/xml", "<htmlx xmlns='http://www.w3.org/1999/xhtml'>", "text/xml"},
		{"text/xml", "<!DOCTYPE html [ <!ENTITY e '<rss> ] >'> <!-- it's ]> --> <?x ' ]> ?> <!ENTITY % f \"'\"> ]\n>" + page, "application/xhtml+xml"}, {"application/xml", "<!DOCTYPE html PUBLIC '-//x//a > b [' 'y' [<!ENTITY nbsp '&#160;'>]>" + page, "application/xhtml+xml"},
		{"text/xml", "<!DOCTYPE html PUBLIC '-//x>" + page, "application/xhtml+xml"}, {"text/xml", "<!DOCTYPE html [<!ENTITY e \"" + page + "\">]><rss/>", "text/xml"}, {"text/xml", "<!DOCTYPE html [", "text/xml"},
		{"text/xml", "\xff\xfe" + wide(prolog[3:]+page, 1), "application/xhtml+xml"}, {"", "\xfe\xff" + wide(prolog[3:]+page, 0), "application/xhtml+xml"}, {"text/xml", wide(prolog[3:]+page, 1), "application/xhtml+xml"},
		{"text/xml; charset=utf-16", wide(page, 1), `application/xhtml+xml; charset="utf-16"`}, {"text/xml; charset=utf-8", wide(prolog[3:]+page, 0), "text/xml; charset=utf-8"}, {"text/xml", "\xff\xfe<", "text/xml"},
		{`text/xml; charset="a\"b"`, page, "application/xhtml+xml"}, {"text/xml", "", "text/xml"}, {"text/xml", "<html", "text/xml"},
	} {
		if got := ByRoot(c[0], []byte(c[1])); got != c[2] {
			t.Errorf("%q, %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// wide writes ASCII in UTF-16: each octet with a zero before it (at 0) or behind it (at 1).
func wide(s string, at int) string {
	b := make([]byte, 2*len(s))
	for i := range len(s) {
		b[2*i+1-at] = s[i]
	}
	return string(b)
}

// TestPrologsTakeLinearTime: a document of declarations that do not end is looked through once.
func TestPrologsTakeLinearTime(t *testing.T) {
	for _, part := range []string{"<![>", "<!'>\"", "<![<!-->", "<![<?>"} {
		if got := FromRoot([]byte(strings.Repeat(part, 1<<20))); len(got) == 0 {
			t.Errorf("%s: nothing", part)
		}
	}
}

// TestFromRoot: what a DOCTYPE declares is no part of what a document shows.
func TestFromRoot(t *testing.T) {
	const page = "<html xmlns='x'>]></html>"
	for in, want := range map[string]string{"<?xml version='1.0'?><!DOCTYPE html [<!ENTITY e '<a href=\"/no\">'>]>\n" + page: page, page: page, "<!-- x": "<!-- x", "<!DOCTYPE html [": "<!DOCTYPE html [", "": ""} {
		if got := string(FromRoot([]byte(in))); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}
