package complete

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// settings are those of a shell whose Tab completes a line, writes it to a file and takes it away. After $LINES_TYPED of them the shell ends.
const settings = `fpath=($FUNCTIONS $fpath)
autoload -Uz compinit
compinit -u -d $ZDOTDIR/dump
[[ -z $SOURCED ]] || source $SOURCED
shown() { zle complete-word; print -r -- "$BUFFER" >> $ZDOTDIR/lines; BUFFER=; ((--LINES_TYPED)) || exit }
zle -N shown
bindkey '^I' shown
`

// atTerminal types lines, each with a Tab, into such a shell at a terminal.
const atTerminal = `zmodload zsh/zpty
zpty shell zsh -d -i
zpty -w -n shell "$1"
while zpty -t shell; do zpty -r -t shell said || sleep .05; done
`

// TestZshAtTheFirstTab: the script offers words from the first Tab on, installed as packages do it, and sourced: commands, and flags behind them. The function of the
// file has the name of the one in it if the program's name has no hyphen.
func TestZshAtTheFirstTab(t *testing.T) {
	zsh, err := exec.LookPath("zsh")
	if err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") != "" {
			t.Fatal("zsh is not here")
		}
		t.Skip("zsh is not here: what it completes is not seen")
	}
	var c struct {
		Service struct {
			Run struct {
				Level string `help:"What it says."`
			} `cmd:"" help:"Runs it here."`
			Install struct{} `cmd:"" help:"Has it run."`
		} `cmd:"" help:"Runs it."`
		Pause struct {
			Tomorrow bool `help:"Until tomorrow."`
		} `cmd:"" help:"Stops it."`
	}
	lines := [][2]string{{" ser", " service"}, {" pause --tom", " pause --tomorrow"}, {" --help service r", " --help service run"}, {" service run --le", " service run --level="}}
	for _, program := range []string{"tool", "tool-peer"} {
		k, err := kong.New(&c, kong.Name(program))
		if err != nil {
			t.Fatal(err)
		}
		var script bytes.Buffer
		if err := Write(&script, "zsh", program, k.Model.Node, nil); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "functions", "_"+program)
		if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{file: script.Bytes(), filepath.Join(dir, ".zshrc"): []byte(settings)} {
			if err := os.WriteFile(name, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for how, env := range map[string][]string{"installed": {"FUNCTIONS=" + filepath.Dir(file), "SOURCED="}, "sourced": {"FUNCTIONS=", "SOURCED=" + file}} {
			if err := os.RemoveAll(filepath.Join(dir, "lines")); err != nil {
				t.Fatal(err)
			}
			var typed, want string
			for _, l := range lines {
				typed += program + l[0] + "\t"
				want += program + l[1] + "\n"
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			cmd := exec.CommandContext(ctx, zsh, "-f", "-c", atTerminal, "zsh", typed)
			cmd.Env, cmd.WaitDelay = append(append(os.Environ(), "ZDOTDIR="+dir, fmt.Sprint("LINES_TYPED=", len(lines))), env...), time.Second
			out, err := cmd.CombinedOutput()
			cancel()
			if got, read := os.ReadFile(filepath.Join(dir, "lines")); err != nil || read != nil || strings.ReplaceAll(string(got), " \n", "\n") != want {
				t.Errorf("%s: %q, want %q; %v %v %s", how, got, want, err, read, out)
			}
		}
	}
}
