package tables

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// TestSystem reads the system's error out of Badger's words, which are all that is left of it, and leaves other errors as they are.
func TestSystem(t *testing.T) {
	t.Parallel()
	if err := System(nil); err != nil {
		t.Error(err)
	}
	write := func(is error) error { return &fs.PathError{Op: "write", Path: "/d/LOCK", Err: is} }
	for _, is := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES} {
		words := fmt.Errorf("Cannot write pid file %q err: %+v", "/d/LOCK", write(is)) // as Badger has it
		if got := System(words); errors.Is(words, is) || !errors.Is(got, is) || !errors.Is(got, words) || got.Error() != words.Error() {
			t.Errorf("%v: %v", words, got)
		}
		if whole := write(is); System(whole) != whole {
			t.Errorf("%v is another one: %v", whole, System(whole))
		}
	}
	for _, other := range []error{errors.New("MANIFEST has bad magic"), fmt.Errorf("%v, and more", syscall.ENOSPC), write(syscall.EIO)} {
		if got := System(other); got != other {
			t.Errorf("%v is another one: %v", other, got)
		}
	}
}
