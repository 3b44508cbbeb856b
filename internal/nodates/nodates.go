// Package dateparser stands in for github.com/markusmobius/go-dateparser, by a replace directive in our go.mod: go-trafilatura links it by way of
// go-htmldate to find when a text was published, which we never ask for (HtmlDateMode is Disabled). The real one is 3 MB of language
// data in the program, and about 18 MB of regular expressions in its memory from the first moment on.
//
// It finds no date in anything. It is not for parsing dates.
package dateparser

import (
	"errors"
	"time"
)

// ErrNone is what every text gets.
var ErrNone = errors.New("dateparser: none here")

// ParserType names a way to read a date.
type ParserType uint8

// The ways that go-htmldate names.
const (
	CustomFormat ParserType = iota
	AbsoluteTime
)

// PreferredDateSource says how to complete a date.
type PreferredDateSource uint8

// Past completes it to one that was.
const Past PreferredDateSource = 1

// Configuration is not looked at.
type Configuration struct {
	PreferredDateSource PreferredDateSource
	StrictParsing       bool
}

// Date is a date that was found.
type Date struct{ Time time.Time }

// Parser finds none.
type Parser struct{ ParserTypes []ParserType }

// Parse finds none.
func (*Parser) Parse(*Configuration, string, ...string) (Date, error) { return Date{}, ErrNone }
