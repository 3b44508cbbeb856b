package ledger

import (
	"testing"

	"shoal/manager/archive/schema"
)

// FuzzCursor reads foreign cursors.
func FuzzCursor(f *testing.F) {
	l := &Ledger{id: [8]byte{1, 2, 3}}
	f.Add(l.Cursor(schema.Feed, 77))
	f.Add(Standing{Feed: 77, Last: 78}.Cursor(l))
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if seq, err := l.Position(schema.Feed, s); err == nil && s != "" && l.Cursor(schema.Feed, seq) != s {
			t.Errorf("cursor %q is read as %d, which is %q", s, seq, l.Cursor(schema.Feed, seq))
		}
	})
}
