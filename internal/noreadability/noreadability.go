// Package readability stands in for github.com/go-shiori/go-readability, by a replace directive in our go.mod.
// go-trafilatura links it as a fallback, which package text never asks for. The real one is archived, and brings modules
// that nobody has maintained since 2021 or before. See decision 0030.
//
// It finds no text in anything.
package readability

import (
	"errors"
	"net/url"

	"golang.org/x/net/html"
)

// ErrNone is the error for every document.
var ErrNone = errors.New("readability: none here")

// Article is the text of a document: none.
type Article struct{ Node *html.Node }

// FromDocument finds nothing.
func FromDocument(*html.Node, *url.URL) (Article, error) { return Article{}, ErrNone }
