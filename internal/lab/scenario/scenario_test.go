package scenario

import (
	"strings"
	"testing"
)

// Answers are made anew, and what was said before them stays.
func TestSteps(t *testing.T) {
	got := Steps([]byte("# why\n\n> add 1 2\nan old answer\n> nothing\n> add x\n"), func(step []string) []string {
		if step[0] != "add" {
			return nil
		}
		return step[1:]
	})
	if want := "# why\n\n> add 1 2\n1\n2\n> nothing\n> add x\nx\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPlay plays the one file of testdata.
func TestPlay(t *testing.T) {
	Play(t, 1, func(_ *testing.T, script []byte) []byte {
		return Steps(script, func(step []string) []string { return []string{strings.ToUpper(strings.Join(step, " "))} })
	})
}
