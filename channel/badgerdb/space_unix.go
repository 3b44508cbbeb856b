//go:build unix

package badgerdb

import "golang.org/x/sys/unix"

// freeBytes is what the disk of a folder has left for us.
func freeBytes(dir string) (int64, bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(uint64(s.Bavail) * uint64(s.Bsize)), true
}
