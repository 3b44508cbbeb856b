package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"shoal/internal/lab/doclines"
)

// TestCommandsInTheDocs checks that every command of shoal in the docs is one. It is not parallel: it reads files from the working directory, which is
// another one while a bucket of s3lab is there.
func TestCommandsInTheDocs(t *testing.T) {
	signed := map[string]bool{"ban v1": true, "certificate v1": true, "delegation v1": true, "document v1": true, "task v1": true, "releases v1": true, "contribution v1": true, "work v1": true, "record 1": true} // contexts of signatures
	for _, l := range doclines.Of(t, "../..", "shoal") {
		if signed[strings.Join(l.Args, " ")] {
			continue
		}
		var c cli
		parser, err := kong.New(&c, kong.Name("shoal"), kong.WithHyphenPrefixedParameters(true), kong.Exit(func(int) {}), helpVars(t.TempDir()), kong.Bind(&textOut{w: t.Output()}))
		if err != nil {
			t.Fatal(err)
		}
		parser.Stdout, parser.Stderr = t.Output(), t.Output()
		if _, err := parser.Parse(l.Args); !l.Fits(err) {
			t.Errorf("%s shows `%s`, but: %v", l.File, l.Text, err)
		}
	}
}
