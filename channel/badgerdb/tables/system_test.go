package tables

import (
	"errors"
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
		words := errors.New(`Cannot write pid file "/d/LOCK" err: ` + write(is).Error()) // as Badger has it
		if got := System(words); errors.Is(words, is) || !errors.Is(got, is) || !errors.Is(got, words) || got.Error() != words.Error() {
			t.Errorf("%v: %v", words, got)
		}
		same(t, write(is))
	}
	for _, other := range []error{errors.New("MANIFEST has bad magic"), errors.New(syscall.ENOSPC.Error() + ", and more"), write(syscall.EIO)} {
		same(t, other)
	}
}

func same(t *testing.T, err error) {
	t.Helper()
	if changed := new(worded); errors.As(System(err), &changed) {
		t.Errorf("%v is another one", err)
	}
}
