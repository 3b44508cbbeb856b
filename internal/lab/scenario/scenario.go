// Package scenario plays the text scenarios of pure packages: files of testdata in which steps stand with the answers that they had. A test plays them anew and
// compares; with -update it writes the answers into the files, to be read as a diff. It knows nothing of what is played.
package scenario

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the answers into the scenarios of testdata")

// Play runs each file of testdata/*.txt, of which there must be least at least, as a test of its own. play returns what the file should be.
func Play(t *testing.T, least int, play func(t *testing.T, script []byte) []byte) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < least {
		t.Fatalf("%d scenarios, want %d at least: %v", len(files), least, err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, want)
			switch {
			case *update:
				if err := os.WriteFile(name, got, 0o600); err != nil { // the mode of a file that is there stays
					t.Fatal(err)
				}
			case !bytes.Equal(got, want):
				t.Errorf("%s differs; run with -update and read the diff. Got\n%s\nwant\n%s", name, got, want)
			}
		})
	}
}

// Steps plays a script whose steps begin with "> ". Comments ("#") and empty lines stay; the lines after a step are what do answers to its words.
func Steps(script []byte, do func(step []string) []string) []byte {
	var out bytes.Buffer
	for lines := bufio.NewScanner(bytes.NewReader(script)); lines.Scan(); {
		line := lines.Text()
		step, is := strings.CutPrefix(line, "> ")
		switch {
		case is:
			fmt.Fprintln(&out, line)
			for _, answer := range do(strings.Fields(step)) {
				fmt.Fprintln(&out, answer)
			}
		case strings.HasPrefix(line, "#"), line == "":
			fmt.Fprintln(&out, line)
		}
	}
	return out.Bytes()
}
