package main

import (
	"bytes"
	"strings"
	"testing"

	"shoal/manager/desk"
)

// TestObjectionsAreListed looks at the list of a peer's cases: an operator need not open each to see where the peer objects. Nothing in it moves the terminal's cursor.
func TestObjectionsAreListed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e := desk.PeerEvidence{Cases: []desk.Case{{Number: "00aa", Objection: "My provider\x1b[2J rewrites pages, " + strings.Repeat("and ", 30)}, {Number: "00bb"}}}
	if err := showEvidence(streams{out: &out, err: &out}, &e); err != nil {
		t.Fatal(err)
	}
	said := out.String()
	if !strings.Contains(said, "OBJECTION") || !strings.Contains(said, "My provider") || !strings.Contains(said, "...") || strings.Contains(said, "\x1b") || len(said) > 800 {
		t.Errorf("listed as:\n%s", said)
	}
}
