package main

import (
	"strings"
	"testing"

	"shoal/internal/lab/nospace"
)

// TestAnswersThatCannotBeWritten: a command whose answer goes nowhere fails, and says why.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	for _, args := range []string{"version"} {
		var said strings.Builder
		if code := run(t.Context(), strings.Fields(args), streams{out: nospace.Output{}, err: &said}); code != 1 || !strings.Contains(said.String(), nospace.Err.Error()) {
			t.Errorf("shoal-sim %s: status %d: %s", args, code, &said)
		}
	}
}
