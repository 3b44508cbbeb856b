// Package plain words errors and times for people. It prints errors at a terminal on one line, without the package
// names that help developers, and with a flag's expected value instead of a parser's. It prints times as people say
// them, on pages and at terminals. It is not for logs.
package plain

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// packages matches the package names that begin our errors. internal/deptest holds the list to the packages.
var packages = regexp.MustCompile(`(^|[:;] |\()(?:` +
	`allocate|allocsim|api|arbiter|archive|archivecmd|badgerdb|bucket|carry|channel|conduct|coords|crawl|cycle|cyclesim|desk|figure|haul|headroom|importance|intake|joint|lease|limit|listing|manager|measurements|member|` +
	`order|ordersim|ordertrial|overlay|p2p|peer|plan|pond|postgres|programs|queue|recrawl|release|remote|segment|service|signing|sim|smallbucket|text|tidy|trust|trusted|trustsim|uplink|warc|web|wire): `)

// wordings replace messages of the command line's parser.
var wordings = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`expected (?:a valid )?(?:\d+ bit )?uint(?: value)? but got "?([^";]*)"?.*`), `want a whole number, zero or more, not "$1"`},
	{regexp.MustCompile(`expected (?:a valid )?(?:\d+ bit )?int(?: value)? but got "?([^";]*)"?.*`), `want a whole number, not "$1"`},
	{regexp.MustCompile(`expected (?:an? )?(?:valid )?(?:\d+ bit )?float(?: value)? but got "?([^";]*)"?.*`), `want a number, not "$1"`},
	{regexp.MustCompile(`expected duration(?: value)? but got "?([^";:]*)"?.*`), `want a time with its unit, such as 60s or 2h, not "$1"`},
	{regexp.MustCompile(`expected \w+ value but got "EOL".*`), `a value is missing behind it`},
	{regexp.MustCompile(`^expected "(<[^"]*)"$`), `$1 is missing`},
	{regexp.MustCompile(`expected "<key>=<value>" but got (".*")$`), `want NAME=VALUE, not $1`},
	{regexp.MustCompile(`parsing time "([^"]*)" as "2006-01-02T15:04:05Z07:00": .*`), `want a time such as 2026-05-01T12:00:00Z, not "$1"`},
	{regexp.MustCompile(`^\[?(<?[^ \]]*?)\]? must be one of (?:"",)?(.*) but got (".*")$`), `$1: want one of $2, not $3`},
	{regexp.MustCompile(`(: want one of .*),"", not `), `$1, not `},
	{regexp.MustCompile(`disk is full: not now: `), `the disk is full: `},
	{regexp.MustCompile(`json: cannot unmarshal (\w+) into Go struct field \w+\.(\w+) of type (\w+)`), `$2 is a $1, and should be another kind of value ($3)`},
}

// Printable returns a text without characters that a terminal would act on: control characters and bytes that are no UTF-8 are escaped as in
// Go's strings. Line feeds and tabs stay.
func Printable(s string) string {
	odd := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, odd) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case odd(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// Error returns the text of an error on one line, and printable. Of errors that were joined each text stands once.
func Error(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' })
	for i := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(lines[i]), "* "))
	}
	var said []string
	for _, line := range lines {
		if !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	s := strings.Join(said, "; ")
	for packages.MatchString(s) {
		s = packages.ReplaceAllString(s, "$1")
	}
	for _, w := range wordings {
		s = w.from.ReplaceAllString(s, w.to)
	}
	return Printable(s)
}

// Mend returns what a person can do about an error of a disk, or "" where that is not known.
func Mend(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "make room on that disk"
	case errors.Is(err, syscall.EROFS):
		return "make that disk writable, or name another folder with --data"
	}
	return ""
}

// Usage returns the text of a command line error and the command that shows help about it: "shoal up --help". Of a command that stands elsewhere in the
// tree of commands it says where.
func Usage(program string, err error) (text, help string) {
	text, help = Error(err), program
	var p *kong.ParseError
	var t *twice
	var c *kong.Context
	switch {
	case errors.As(err, &p):
		c = p.Context
	case errors.As(err, &t):
		c = t.context
	}
	if c == nil {
		return text, help + " --help"
	}
	node := c.Selected()
	if node != nil {
		help += " " + node.FullPath()[len(program)+1:]
	}
	if word, ok := strings.CutPrefix(text, "unexpected argument "); ok && (node == nil || len(node.Children) > 0) {
		word, _, _ = strings.Cut(word, ",") // what the parser guesses is behind it
		var meant []string
		for _, leaf := range c.Model.Leaves(true) {
			if leaf.Name == word {
				meant = append(meant, leaf.FullPath())
			}
		}
		if len(meant) > 0 {
			text = "unexpected argument " + word + ": do you mean " + strings.Join(meant, " or ") + "?"
		}
	}
	return text, help + " --help"
}

// Count returns a number and a noun, with an s unless the number is 1.
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// Parse parses a command line. It also refuses a flag that is there twice, since one of both would be lost; flags that take several values may be.
func Parse(k *kong.Kong, args []string) (*kong.Context, error) {
	c, err := k.Parse(args)
	if err != nil {
		return c, err
	}
	seen := map[*kong.Flag]bool{}
	for _, p := range c.Path {
		f := p.Flag
		if f == nil || p.Resolved || f.IsCounter() || f.Target.Kind() == reflect.Slice || f.Target.Kind() == reflect.Map {
			continue
		}
		if seen[f] {
			return c, &twice{f.Name, c}
		}
		seen[f] = true
	}
	return c, nil
}

// twice is a flag that is there twice.
type twice struct {
	flag    string
	context *kong.Context
}

func (t *twice) Error() string { return "--" + t.flag + " is there twice: give it once" }
