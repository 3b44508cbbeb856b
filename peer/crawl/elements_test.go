package crawl

import (
	"testing"

	"shoal/channel/markup"
)

// TestElementsOfTextAreThoseOfEncodings: the crawl and the search for an encoding pass over the content of the same elements.
func TestElementsOfTextAreThoseOfEncodings(t *testing.T) {
	for is := htmlElement(1); int(is) < len(elements); is++ {
		name := elements[is].name
		_, _, enc := markup.UTF8([]byte("<"+name+"><meta charset=koi8-r></"+name+"><meta charset=big5>\xa4\xa4"), "text/html; charset=nonsense")
		passes := is.has(holdsText) || is == elScript
		switch {
		case is == elMeta || is == elPlaintext:
		case passes && enc != "big5", !passes && enc != "koi8-r":
			t.Errorf("<%s>: the encoding is %s", name, enc)
		}
	}
}
