package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints a script made from the program's commands and flags.
func (c *completionCmd) Run(s streams, k *kong.Kong) error {
	var b strings.Builder
	list := commandsOf(k.Model.Node)
	switch c.Shell {
	case "bash":
		bash(&b, list)
	case "zsh":
		zsh(&b, list)
	case "fish":
		fish(&b, list)
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

type command struct {
	name, help string
	words      []string // what its argument may be
	flags      []option
}

type option struct {
	name, help string
	takes      string   // what its value is called; empty: it takes none
	files      bool     // the value is a path
	words      []string // what the value may be
}

// choices are the values of flags that accept one of a few.
var choices = map[string][]string{"log-level": {"debug", "info", "warn", "error"},
	"on-battery": {"pause", "run"}, "on-metered": {"pause", "run"}, "in-use": {"pause", "run"}}

func commandsOf(root *kong.Node) (out []command) {
	for _, n := range root.Children {
		c := command{name: n.Name, help: n.Help}
		for _, a := range n.Positional {
			if a.Enum != "" {
				c.words = strings.Split(a.Enum, ",")
			}
		}
		for _, f := range append(n.Flags, root.Flags...) {
			o := option{name: f.Name, help: f.Help, files: f.Tag.Type == "path", words: choices[f.Name]}
			if !f.IsBool() && f.Name != "help" {
				o.takes = f.FormatPlaceHolder()
			}
			c.flags = append(c.flags, o)
			if f.Negated || f.Tag.Negatable != "" {
				c.flags = append(c.flags, option{name: "no-" + f.Name, help: "Not: " + f.Help})
			}
		}
		out = append(out, c)
	}
	return out
}

func bash(w io.Writer, list []command) {
	var names, files, values, cases []string
	seen := map[string]bool{}
	for _, c := range list {
		names = append(names, c.name)
		words := c.words
		for _, f := range c.flags {
			words = append(words, "--"+f.name)
			if f.files && !seen[f.name] {
				files = append(files, "--"+f.name)
			}
			seen[f.name] = true
		}
		cases = append(cases, fmt.Sprintf("    %s) words=%q ;;\n", c.name, strings.Join(words, " ")))
	}
	for _, name := range slices.Sorted(maps.Keys(choices)) {
		values = append(values, fmt.Sprintf("  --%s) COMPREPLY=($(compgen -W %q -- \"$cur\")); return ;;\n", name, strings.Join(choices[name], " ")))
	}
	fmt.Fprintf(w, `# source <(shoal-peer completion bash)
_shoal_peer() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd= words= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
    %s) cmd=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $prev in
  %s) compopt -o filenames 2>/dev/null; local IFS=$'\n'; COMPREPLY=($(compgen -f -- "$cur")); return ;;
%s  esac
  case $cmd in
    "") words=%q ;;
%s  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _shoal_peer shoal-peer
`, strings.Join(names, "|"), strings.Join(files, "|"), strings.Join(values, ""), strings.Join(names, " ")+" --help --config", strings.Join(cases, ""))
}

// quoted escapes a text for use inside single quotes in a list of zsh's.
func quoted(s string) string {
	return strings.NewReplacer("'", "'\\''", "[", "(", "]", ")", ":", "\\:").Replace(s)
}

func zsh(w io.Writer, list []command) {
	fmt.Fprint(w, "#compdef shoal-peer\n# source <(shoal-peer completion zsh)\n_shoal_peer() {\n  local -a commands\n  commands=(\n")
	for _, c := range list {
		fmt.Fprintf(w, "    '%s:%s'\n", c.name, quoted(c.help))
	}
	fmt.Fprint(w, "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n  local cmd=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $cmd in\n")
	for _, c := range list {
		fmt.Fprintf(w, "  %s) _arguments", c.name)
		if len(c.words) > 0 {
			fmt.Fprintf(w, " '1:%s:(%s)'", c.name, strings.Join(c.words, " "))
		}
		for _, f := range c.flags {
			switch {
			case f.takes == "":
				fmt.Fprintf(w, " '--%s[%s]'", f.name, quoted(f.help))
			case f.files:
				fmt.Fprintf(w, " '--%s=[%s]:path:_files'", f.name, quoted(f.help))
			case f.words != nil:
				fmt.Fprintf(w, " '--%s=[%s]:value:(%s)'", f.name, quoted(f.help), strings.Join(f.words, " "))
			default:
				fmt.Fprintf(w, " '--%s=[%s]:value:'", f.name, quoted(f.help))
			}
		}
		fmt.Fprint(w, " ;;\n")
	}
	fmt.Fprint(w, "  esac\n}\ncompdef _shoal_peer shoal-peer\n")
}

func fish(w io.Writer, list []command) {
	quote := func(s string) string {
		return "'" + strings.NewReplacer("\\", "\\\\", "'", "\\'").Replace(s) + "'"
	}
	fmt.Fprint(w, "# shoal-peer completion fish | source\ncomplete -c shoal-peer -f\n"+
		"complete -c shoal-peer -n __fish_use_subcommand -l config -r -F -d 'Configuration file.'\n")
	for _, c := range list {
		fmt.Fprintf(w, "complete -c shoal-peer -n __fish_use_subcommand -a %s -d %s\n", c.name, quote(c.help))
		on := quote("__fish_seen_subcommand_from " + c.name)
		if len(c.words) > 0 {
			fmt.Fprintf(w, "complete -c shoal-peer -n %s -a %s\n", on, quote(strings.Join(c.words, " ")))
		}
		for _, f := range c.flags {
			fmt.Fprintf(w, "complete -c shoal-peer -n %s -l %s -d %s", on, f.name, quote(f.help))
			switch {
			case f.files:
				fmt.Fprint(w, " -r -F")
			case f.words != nil:
				fmt.Fprintf(w, " -x -a %s", quote(strings.Join(f.words, " ")))
			case f.takes != "":
				fmt.Fprint(w, " -x")
			}
			fmt.Fprintln(w)
		}
	}
}
