//go:build unix

package main

import "golang.org/x/sys/unix"

// freeBytes is the room that is left for us on a folder's disk.
func freeBytes(dir string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // their types differ between systems
}
