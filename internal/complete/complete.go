// Package complete writes the completion scripts of bash, zsh and fish from the commands and flags of a kong program. It knows no program: what the
// values of a flag may be, where kong does not know it, is handed in.
package complete

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Shells are the shells that Write knows.
const Shells = "bash,zsh,fish"

// Write writes the script of a shell. choices are the values of flags that accept one of a few, by the flags' names.
func Write(w io.Writer, shell, program string, root *kong.Node, choices map[string][]string) error {
	p := &script{name: program, fn: "_" + strings.ReplaceAll(program, "-", "_"), choices: choices}
	p.collect(root, root, nil)
	switch shell {
	case "bash":
		p.bash(w)
	case "zsh":
		p.zsh(w)
	case "fish":
		p.fish(w)
	default:
		return fmt.Errorf("there is no completion for %q; want one of %s", shell, Shells)
	}
	return nil
}

type script struct {
	name, fn string
	list     []command // the program itself first; each before its own commands
	choices  map[string][]string
}

// command is a command with the names that lead to it.
type command struct {
	path  []string
	help  string
	below []command // names and help of its commands
	words []string  // what its argument may be
	flags []option
}

type option struct {
	name, help string
	takes      string   // what its value is called; empty: it takes none
	files      bool     // the value is a path
	words      []string // what the value may be
}

func (p *script) collect(root, n *kong.Node, path []string) {
	c := command{path: path, help: n.Help}
	for _, a := range n.Positional {
		if a.Enum != "" {
			c.words = strings.Split(a.Enum, ",")
		}
	}
	flags := n.Flags
	for up := n.Parent; up != nil; up = up.Parent {
		flags = append(flags[:len(flags):len(flags)], up.Flags...)
	}
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		o := option{name: f.Name, help: f.Help, files: f.Tag.Type == "path", words: p.choices[f.Name]}
		if !f.IsBool() && f.Name != "help" {
			o.takes = f.FormatPlaceHolder()
		}
		c.flags = append(c.flags, o)
		if f.Negated || f.Tag.Negatable != "" {
			c.flags = append(c.flags, option{name: "no-" + f.Name, help: "Not: " + f.Help})
		}
	}
	var below []*kong.Node
	for _, b := range n.Children {
		if !b.Hidden {
			below = append(below, b)
			c.below = append(c.below, command{path: []string{b.Name}, help: b.Help})
		}
	}
	p.list = append(p.list, c)
	for _, b := range below {
		p.collect(root, b, append(path[:len(path):len(path)], b.Name))
	}
}

// offered are the words that may follow a command: its commands, what its argument may be, its flags.
func (c *command) offered() (out []string) {
	for _, b := range c.below {
		out = append(out, b.path[0])
	}
	out = append(out, c.words...)
	for _, f := range c.flags {
		out = append(out, "--"+f.name)
	}
	return out
}

// paths are all commands as the scripts compare them: names with a slash before each.
func (p *script) paths() (out []string) {
	for _, c := range p.list[1:] {
		out = append(out, c.at())
	}
	return out
}

func (c *command) at() string {
	if len(c.path) == 0 {
		return ""
	}
	return "/" + strings.Join(c.path, "/")
}

func (p *script) bash(w io.Writer) {
	var cases, values strings.Builder
	files := map[string]bool{}
	for _, c := range p.list {
		for _, f := range c.flags {
			if f.files {
				files["--"+f.name] = true
			}
		}
		fmt.Fprintf(&cases, "    %q) words=%q ;;\n", c.at(), strings.Join(c.offered(), " "))
	}
	if len(files) > 0 {
		fmt.Fprintf(&values, "  %s) compopt -o filenames 2>/dev/null; local IFS=$'\\n'; COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n",
			strings.Join(slices.Sorted(maps.Keys(files)), "|"))
	}
	for _, name := range slices.Sorted(maps.Keys(p.choices)) {
		fmt.Fprintf(&values, "  --%s) COMPREPLY=($(compgen -W %q -- \"$cur\")); return ;;\n", name, strings.Join(p.choices[name], " "))
	}
	fmt.Fprintf(w, `# source <(%[1]s completion bash)
%[2]s() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd= words= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case $cmd/${COMP_WORDS[i]} in
    %[3]s) cmd=$cmd/${COMP_WORDS[i]} ;;
    esac
  done
  case $prev in
%[4]s  esac
  case $cmd in
%[5]s  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F %[2]s %[1]s
`, p.name, p.fn, strings.Join(p.paths(), "|"), values.String(), cases.String())
}

// quoted escapes a text for use inside single quotes in a list of zsh's.
func quoted(s string) string {
	return strings.NewReplacer("'", "'\\''", "[", "(", "]", ")", ":", "\\:").Replace(s)
}

func (p *script) zsh(w io.Writer) {
	fmt.Fprintf(w, `#compdef %[1]s
# source <(%[1]s completion zsh)
%[2]s() {
  local cmd= i last=1
  local -a commands
  for ((i = 2; i < CURRENT; i++)); do
    case $cmd/$words[i] in
    %[3]s) cmd=$cmd/$words[i] last=$i ;;
    esac
  done
  # _arguments takes the first word for the command, and those behind it for arguments.
  shift $((last - 1)) words
  ((CURRENT -= last - 1))
  case $cmd in
`, p.name, p.fn, strings.Join(p.paths(), "|"))
	for _, c := range p.list {
		fmt.Fprintf(w, "  %q)\n", c.at())
		if len(c.below) > 0 {
			fmt.Fprint(w, "    commands=(")
			for _, b := range c.below {
				fmt.Fprintf(w, " '%s:%s'", b.path[0], quoted(b.help))
			}
			fmt.Fprint(w, " )\n    _describe command commands\n")
		}
		fmt.Fprint(w, "    _arguments")
		if len(c.words) > 0 {
			fmt.Fprintf(w, " '*:%s:(%s)'", c.path[len(c.path)-1], strings.Join(c.words, " "))
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
	// Installed, the file is the body of a function that zsh calls for the first completion, which must offer words already.
	fmt.Fprintf(w, "  esac\n}\nif [[ $funcstack[1] == _%[2]s ]]; then\n  %[1]s \"$@\"\nfi\ncompdef %[1]s %[2]s\n", p.fn, p.name)
}

func (p *script) fish(w io.Writer) {
	quote := func(s string) string {
		return "'" + strings.NewReplacer("\\", "\\\\", "'", "\\'").Replace(s) + "'"
	}
	fmt.Fprintf(w, "# %[1]s completion fish | source\ncomplete -c %[1]s -f\n", p.name)
	for _, c := range p.list {
		var seen []string
		for _, name := range c.path {
			seen = append(seen, "__fish_seen_subcommand_from "+name)
		}
		names := make([]string, len(c.below))
		for i, b := range c.below {
			names[i] = b.path[0]
		}
		alone := seen
		switch {
		case len(c.path) == 0:
			alone = []string{"__fish_use_subcommand"}
		case len(names) > 0:
			alone = slices.Concat(seen, []string{"not __fish_seen_subcommand_from " + strings.Join(names, " ")})
		}
		on := quote(strings.Join(alone, "; and "))
		for _, b := range c.below {
			fmt.Fprintf(w, "complete -c %s -n %s -a %s -d %s\n", p.name, on, b.path[0], quote(b.help))
		}
		if len(c.words) > 0 {
			fmt.Fprintf(w, "complete -c %s -n %s -a %s\n", p.name, on, quote(strings.Join(c.words, " ")))
		}
		for _, f := range c.flags {
			fmt.Fprintf(w, "complete -c %s -n %s -l %s -d %s", p.name, on, f.name, quote(f.help))
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
