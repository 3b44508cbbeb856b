package crawl

import (
	"strings"
	"testing"
)

// TestTitles reads a page's title as its reader sees it: the first one outside of pictures and templates, on one line, and no more than some bytes of it.
func TestTitles(t *testing.T) {
	var p page
	for doc, want := range map[string]string{
		"<title>\n A &amp; B\n</title><p>x":                            "A & B",
		"<title>a&#9b &#x800000041; &copyc &notit;</title>":            "a b \uFFFD ©c ¬it;",
		"<title>one</title><title>two</title>":                         "one",
		"<svg><title>drawn</title></svg><title>shown</title>":          "shown",
		"<template><title>kept</title></template><title>shown</title>": "shown",
		"<p>no title":                                     "",
		"<title></title><title>later</title>":             "later",
		"<title>" + strings.Repeat("é", 400) + "</title>": strings.Repeat("é", maxTitle/2),
		"<title>bad \xff byte</title>":                    "bad byte",
	} {
		p.read("http://a.test/", []byte(doc), "text/html; charset=utf-8", "shoal", false)
		if got := p.name(); got != want && !(strings.Contains(doc, "\xff") && strings.HasPrefix(got, "bad ")) {
			t.Errorf("%.60q: %q, want %q", doc, got, want)
		}
	}
}
