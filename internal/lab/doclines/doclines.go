// Package doclines reads the command lines that the documentation shows, so that the programs' tests can check that each of them parses. It is
// not part of any program.
package doclines

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Line is one command line with the place where it stands.
type Line struct {
	File  string
	Text  string
	Args  []string // after the program's name
	Named bool     // within a sentence, where a command may be named without its arguments
}

// Fits reports whether a parser's answer to the line is right: nil, or that arguments are missing of a command that is only named.
func (l Line) Fits(err error) bool {
	return err == nil || l.Named && (strings.HasPrefix(err.Error(), `expected "<`) || strings.HasPrefix(err.Error(), "missing flags: "))
}

// quoted matches a command in backquotes.
var quoted = regexp.MustCompile("`([^`]+)`")

// Of returns the command lines of a program in the project's pages: lines of code blocks and commands in backquotes. root is the project's
// folder, seen from the test. Optional parts, in brackets, are left out. Placeholders such as FILE and DIR become names in the test's own
// folder, where FILE exists.
func Of(t testing.TB, root, program string) (lines []Line) {
	t.Helper()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		more, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	fill := placeholders(t)
	for _, page := range pages {
		if filepath.Base(page) == "CHANGELOG.md" { // it tells of commands that are gone
			continue
		}
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands(string(raw)) {
			text := c.text
			words := strings.Fields(cut(text))
			if len(words) < 2 || words[0] != program || words[len(words)-1] == "--help" { // the program's name alone is no command line
				continue
			}
			args := make([]string, 0, len(words))
			for _, w := range words[1:] {
				switch ext := filepath.Ext(w); {
				case fill[w] != "":
					w = fill[w]
				case ext == ".csv" || ext == ".tsv" || ext == ".txt" || ext == ".gz": // a data set
					w = fill["FILE"]
				}
				args = append(args, strings.Trim(w, `"`))
			}
			lines = append(lines, Line{filepath.Base(page), text, args, c.named})
		}
	}
	if len(lines) == 0 {
		t.Fatalf("the pages show no command of %s: is %s the project's folder?", program, root)
	}
	return lines
}

type command struct {
	text  string
	named bool
}

// commands returns what a page shows as commands.
func commands(page string) (out []command) {
	for line := range strings.Lines(page) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			out = append(out, command{strings.TrimSpace(code), false})
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			out = append(out, command{m[1], true})
		}
	}
	return out
}

var (
	optional = regexp.MustCompile(`\[[^\[\]]*\]`)
	inQuotes = regexp.MustCompile(`"[^"]*"`)
)

// cut removes what is not the command itself: comments, explanations after two spaces, a pipe, optional parts.
func cut(text string) string {
	for _, mark := range []string{" #", "   ", ", shoal", " \\|", " |"} {
		text, _, _ = strings.Cut(text, mark)
	}
	text = inQuotes.ReplaceAllStringFunc(text, func(s string) string { return strings.ReplaceAll(s, " ", "-") })
	for optional.MatchString(text) {
		text = optional.ReplaceAllString(text, "")
	}
	return text
}

// placeholders are the words in capitals that the pages use, with values that fit.
func placeholders(t testing.TB) map[string]string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"FILE": file, "DIR": dir, "OUT": filepath.Join(dir, "out"), "ID": "3", "URL": "https://example.org/", "ADDR": "127.0.0.1:7790",
		"X": "1.6", "R": "5000", "T": "1",
	}
}
