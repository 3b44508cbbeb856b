package web

import "testing"

// Numbers are grouped, whichever type they come as.
func TestCount(t *testing.T) {
	n := int64(1234567)
	for _, v := range []any{1234567, n, &n} {
		if got := count(v); got != "1\u202f234\u202f567" {
			t.Errorf("%T: %q", v, got)
		}
	}
}
