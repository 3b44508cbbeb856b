// Package distiller stands in for github.com/markusmobius/go-domdistiller, by a replace directive in our go.mod.
// go-trafilatura links it as a fallback, which package text never asks for. See decision 0030.
//
// It finds no text in anything.
package distiller

import (
	"errors"
	"net/url"

	"golang.org/x/net/html"
)

// ErrNone is the error for every document.
var ErrNone = errors.New("distiller: none here")

// Options are not looked at.
type Options struct {
	OriginalURL    *url.URL
	SkipPagination bool
}

// Result is the text of a document.
type Result struct{ Node *html.Node }

// Apply finds nothing.
func Apply(*html.Node, *Options) (*Result, error) { return nil, ErrNone }
