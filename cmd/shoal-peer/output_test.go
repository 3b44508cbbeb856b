package main

import (
	"strings"
	"testing"

	"shoal/internal/lab/nospace"
)

// TestAnswersThatCannotBeWritten: a command whose answer goes nowhere fails, and says why.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"version", "version --json", "completion bash"} {
		var said strings.Builder
		if code := run(t.Context(), strings.Fields(args), streams{out: nospace.Output{}, err: &said}); code != 1 || !strings.Contains(said.String(), nospace.Err.Error()) {
			t.Errorf("shoal-peer %s: status %d: %s", args, code, &said)
		}
	}
}
