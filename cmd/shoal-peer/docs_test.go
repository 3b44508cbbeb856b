package main

import (
	"testing"

	"github.com/alecthomas/kong"

	"shoal/internal/lab/doclines"
)

// TestCommandsInTheDocs checks that every command of shoal-peer in the docs is one.
func TestCommandsInTheDocs(t *testing.T) {
	for _, l := range doclines.Of(t, "../..", "shoal-peer") {
		var c cli
		parser, err := kong.New(&c, kong.Name("shoal-peer"), kong.WithHyphenPrefixedParameters(true), meanings(), kong.Exit(func(int) {}))
		if err != nil {
			t.Fatal(err)
		}
		parser.Stdout, parser.Stderr = t.Output(), t.Output()
		if _, err := parser.Parse(l.Args); !l.Fits(err) {
			t.Errorf("%s shows `%s`, but: %v", l.File, l.Text, err)
		}
	}
}
