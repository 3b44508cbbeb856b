package main

import (
	"errors"
	"strings"
	"testing"
)

// full takes nothing, as /dev/full does.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestAnswersThatCannotBeWritten: a command whose answer goes nowhere fails, and says why.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"version", "version --json", "completion bash"} {
		var said strings.Builder
		if code := run(t.Context(), strings.Fields(args), streams{out: full{}, err: &said}); code != 1 || !strings.Contains(said.String(), errFull.Error()) {
			t.Errorf("shoal-peer %s: status %d: %s", args, code, &said)
		}
	}
}
