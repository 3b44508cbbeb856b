// Package manpage writes a program's manual page (man(7)) from the same help texts that --help prints, so that the two cannot differ.
package manpage

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Write writes the page of a program; value words the help of flags and arguments, as for --help. All commands stand on the one page. It bears no date, so that the same program has the
// same page.
func Write(w io.Writer, k *kong.Kong, value kong.HelpValueFormatter) error {
	const section = 1
	var b bytes.Buffer
	root := k.Model.Node
	summary, rest, _ := strings.Cut(root.Help, "\n\n")
	fmt.Fprintf(&b, ".TH %s %d \"\" \"\" \"Shoal\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(escaped(root.Name)), section, escaped(root.Name), escaped(strings.TrimSuffix(summary, ".")))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.I command\n.RI [ options ]\n", escaped(root.Name))
	if rest != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", escaped(rest))
	}
	b.WriteString(".SH OPTIONS\nThese hold for every command.\n")
	flags(&b, value, root.Flags)
	b.WriteString(".SH COMMANDS\n")
	for _, n := range root.Children {
		command(&b, value, n)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// heading is a command with its arguments.
func heading(n *kong.Node) string {
	words := []string{n.Name}
	for up := n.Parent; up != nil && up.Parent != nil; up = up.Parent {
		words = append([]string{up.Name}, words...)
	}
	for _, a := range n.Positional {
		words = append(words, a.Summary())
	}
	return strings.Join(words, " ")
}

// command writes a command and those below it.
func command(b *bytes.Buffer, value kong.HelpValueFormatter, n *kong.Node) {
	if n.Hidden {
		return
	}
	if len(n.Children) == 0 {
		fmt.Fprintf(b, ".SS %s\n%s\n", escaped(heading(n)), escaped(n.Help))
		if n.Detail != "" {
			fmt.Fprintf(b, ".PP\n%s\n", escaped(n.Detail))
		}
		for _, a := range n.Positional {
			fmt.Fprintf(b, ".TP\n.I %s\n%s\n", escaped(a.Summary()), escaped(value(a)))
		}
		flags(b, value, n.Flags)
	}
	for _, c := range n.Children {
		command(b, value, c)
	}
}

func flags(b *bytes.Buffer, value kong.HelpValueFormatter, list []*kong.Flag) {
	for _, f := range list {
		if f.Hidden || f.Name == "help" {
			continue
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", escaped(f.String()), escaped(value(f.Value)))
	}
}

// escaped writes a text so that troff prints it as it is: backslashes, hyphens, and lines that begin with a control character.
func escaped(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		switch {
		case strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'"):
			lines[i] = `\&` + l
		case l == "":
			lines[i] = ".PP"
		}
	}
	return strings.Join(lines, "\n")
}
