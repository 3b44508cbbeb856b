package main

import (
	"strings"
	"testing"
)

// The command that the simulators once were says where they are, flags and all.
func TestSimSaysWhereItWent(t *testing.T) {
	for args, want := range map[string]string{
		"sim":                                "Run shoal-sim, or from the sources: go run ./cmd/shoal-sim\n",
		"sim recrawl --steps 3 --case rec":   "Run shoal-sim recrawl --steps 3 --case rec, or from",
		"sim overlay --overlay rings --json": "go run ./cmd/shoal-sim overlay --overlay rings --json\n",
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), strings.Fields(args), streams{&out, &errs}); code != 1 || !strings.Contains(errs.String(), want) || out.Len() > 0 {
			t.Errorf("shoal %s: %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}
