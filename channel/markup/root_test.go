package markup

import "testing"

// TestXHTMLIsKnownByItsRoot: XML whose root is XHTML's is XHTML, with the charset that its header names. Other XML stays what it is.
func TestXHTMLIsKnownByItsRoot(t *testing.T) {
	const prolog = "\xef\xbb\xbf<?xml version='1.0'?>\n<!-- <rss> --><!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'x'>\n"
	const page = "<html\nlang='en' xmlns='http://www.w3.org/1999/xhtml'><a href='/x'/></html>"
	for _, c := range [][3]string{ // type, body, type by which it is read
		{"text/xml; charset=latin1", prolog + page, `application/xhtml+xml; charset="latin1"`}, {"application/xml", page, "application/xhtml+xml"}, {"", prolog + page, "application/xhtml+xml"},
		{"", page, ""}, {"text/html", prolog + page, "text/html"}, {"text/plain", prolog + page, "text/plain"}, {"application/rss+xml", prolog + page, "application/rss+xml"},
		{"text/xml", prolog + "<html><a/></html>", "text/xml"}, {"text/xml", "<rss xmlns:x='http://www.w3.org/1999/xhtml'/>", "text/xml"}, {"text/xml", "<htmlx xmlns='http://www.w3.org/1999/xhtml'>", "text/xml"},
		{"text/xml", "", "text/xml"}, {"text/xml", "<html", "text/xml"},
	} {
		if got := ByRoot(c[0], []byte(c[1])); got != c[2] {
			t.Errorf("%q, %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
