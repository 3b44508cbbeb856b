package plain

import (
	"errors"
	"strings"
	"testing"
)

// fills takes so many writes, and no more.
type fills struct{ left int }

func (f *fills) Write(b []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errors.New("the pipe is closed")
	}
	return len(b), nil
}

// TestOutputRemembers: a write that failed in the middle makes a success a failure, and is not told beside another one.
func TestOutputRemembers(t *testing.T) {
	for _, c := range []struct {
		left, status, want int
		says               string
	}{
		{2, 0, 0, ""}, {1, 0, 1, "shoal: the output could not be written: the pipe is closed\n"}, {0, 0, 1, "shoal: the output could not be written: the pipe is closed\n"}, {0, 2, 2, ""}, {1, 1, 1, ""},
	} {
		o := NewOutput(&fills{c.left})
		for range 2 {
			_, _ = o.Write([]byte("line\n"))
		}
		var says strings.Builder
		if got := o.Exit("shoal", c.status, &says); got != c.want || says.String() != c.says {
			t.Errorf("%+v: status %d, %q", c, got, &says)
		}
	}
}
