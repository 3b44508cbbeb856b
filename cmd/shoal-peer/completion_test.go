package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCompletion asks the installed shells what they offer after the beginnings of some command lines.
func TestCompletion(t *testing.T) {
	v := newVolunteer(t)
	if out := v.ok("version"); !strings.HasPrefix(out, "shoal-peer ") {
		t.Error(out)
	}
	lines := map[string][]string{
		"shoal-peer pa":                   {"pause"},
		"shoal-peer service un":           {"uninstall"},
		"shoal-peer serv":                 {"service"},
		"shoal-peer re":                   {"resume", "report"},
		"shoal-peer run --down":           {"--down-kib-per-s"},
		"shoal-peer run --no-l":           {"--no-low-priority"},
		"shoal-peer run --log-level w":    {"warn"},
		"shoal-peer run --on-battery ":    {"pause", "run"},
		"shoal-peer completion f":         {"fish"},
		"shoal-peer status --j":           {"--json"},
		"shoal-peer log --m":              {"--match"},
		"shoal-peer run --data ./fold":    {"./folder"},
		"shoal-peer pause --data ./x --h": {"--help"},
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := v.ok("completion", shell)
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("no %s here: its completion is looked at only as text", shell)
			if !strings.Contains(script, "pause") || !strings.Contains(script, "down-kib-per-s") {
				t.Error(script)
			}
			continue
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "script")
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
			t.Fatal(err)
		}
		if shell == "zsh" { // completes only at a terminal
			if out, err := exec.Command(path, "-f", "-n", file).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("zsh: %v\n%s", err, out)
			}
			continue
		}
		for line, want := range lines {
			var cmd *exec.Cmd
			if shell == "bash" {
				cmd = exec.Command(path, "--norc", "-c", `source "$1"; COMP_WORDS=($2); [[ $2 == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shoal_peer; printf '%s\n' "${COMPREPLY[@]}"`, "bash", file, line)
			} else {
				cmd = exec.Command(path, "--no-config", "-c", `source $argv[1]; complete -C $argv[2]`, file, line)
			}
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", shell, err, out)
			}
			var got []string
			for l := range strings.Lines(string(out)) {
				word, _, _ := strings.Cut(strings.TrimSpace(l), "\t")
				got = append(got, strings.TrimSuffix(word, "/"))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %q: offers %q, want %q", shell, line, got, want)
			}
		}
	}
}
