package pgserver

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestTail writes a long log: its end is kept, in bounded memory, also where one write is longer than what is kept.
func TestTail(t *testing.T) {
	var log tail
	for n := range 100_000 {
		fmt.Fprintf(&log, "line %d\n", n)
		if cap(log.kept) > 8*mostTail {
			t.Fatalf("%d bytes are held after %d lines", cap(log.kept), n+1)
		}
	}
	if kept := lastLines(string(log.kept)); !strings.HasPrefix(kept, "line 99990\n") || !strings.HasSuffix(kept, "\nline 99999") {
		t.Errorf("the last lines are %q", kept)
	}
	if n, err := log.Write(bytes.Repeat([]byte("x"), 5*mostTail)); n != 5*mostTail || err != nil || len(log.kept) > 2*mostTail {
		t.Errorf("wrote %d, %v; %d bytes are kept", n, err, len(log.kept))
	}
}
