//go:build unix

package badgerdb

import "golang.org/x/sys/unix"

// freeBytes returns the number of bytes that this process may still write to the folder's disk.
func freeBytes(dir string) (int64, bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(uint64(s.Bavail) * uint64(s.Bsize)), true
}
