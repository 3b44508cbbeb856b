// Package whatlanggo stands in for github.com/RadhiFadlillah/whatlanggo, by a replace directive in our go.mod.
// go-trafilatura asks it for the language of every text, and package text drops the answer: it takes the language that the
// document states. See decision 0030.
//
// It knows no language.
package whatlanggo

// Lang is a language: none.
type Lang struct{}

// DetectLang finds nothing.
func DetectLang(string) Lang { return Lang{} }

// Iso6391 is the code of no language.
func (Lang) Iso6391() string { return "" }
