package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// TestDeployFilesFitTheProgram checks that the units and the compose file in deploy call the program with flags and variables that it has.
func TestDeployFilesFitTheProgram(t *testing.T) {
	var variables []string
	for _, leaf := range commands(t) {
		for _, level := range leaf.AllFlags(false) {
			for _, f := range level {
				variables = append(variables, f.Envs...)
			}
		}
	}
	variables = append(variables, "SHOAL_CONTACT", "SHOAL_FLAGS", "SHOAL_IMAGE") // which the files themselves put into command lines
	files, err := filepath.Glob("../../deploy/*")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, file := range files {
		if filepath.Base(file) == "shoal-peer.service" { // of another program
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`SHOAL_[A-Z]+`).FindAllString(string(text), -1) {
			if !slices.Contains(variables, name) {
				t.Errorf("%s sets %s, which no flag has", file, name)
			}
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			var args []string
			if exec, is := strings.CutPrefix(line, "ExecStart=/usr/local/bin/shoal "); is {
				args = strings.Fields(strings.TrimSuffix(exec, "$SHOAL_FLAGS")) // which are the operator's own
			} else if list, is := strings.CutPrefix(line, `command: ["manager"`); is {
				if err := json.Unmarshal([]byte(`["manager"`+list), &args); err != nil {
					t.Errorf("%s: %s: %v", file, line, err)
				}
			} else {
				continue
			}
			lines++
			var c cli
			parser, err := kong.New(&c, kong.Name("shoal"), kong.WithHyphenPrefixedParameters(true), kong.Exit(func(int) {}), helpVars(t.TempDir()), kong.Bind(&textOut{w: t.Output()}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parser.Parse(args); err != nil {
				t.Errorf("%s: %s: %v", file, line, err)
			}
		}
	}
	if lines < 6 {
		t.Errorf("only %d command lines were found", lines)
	}
}

// TestComposeComesBackAfterAReboot: containers that end in an orderly way when the machine does start again with it.
func TestComposeComesBackAfterAReboot(t *testing.T) {
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ +restart: *([a-z-]+)`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 4 {
		t.Errorf("only %d lines say what starts again", len(found))
	}
	for _, m := range found {
		if m[1] != "unless-stopped" {
			t.Errorf("restart: %s leaves what was ended by a reboot", m[1])
		}
	}
}
