package disklab

import (
	"os"
	"strconv"
	"testing"
)

// Cuts says how many times a test is to cut the power. It skips a test that was not asked to.
func Cuts(t testing.TB) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("SHOAL_POWER"))
	if err != nil || n < 1 {
		t.Skip("SHOAL_POWER is not set to a number of cuts: wants root, FUSE and loop devices (make power)")
	}
	return n
}

// For is New for a test, which closes the disk at its end.
func For(t testing.TB, size int64) *Disk {
	t.Helper()
	d, err := New(t.TempDir(), size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
