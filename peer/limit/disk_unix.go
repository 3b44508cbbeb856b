//go:build unix

package limit

import "golang.org/x/sys/unix"

// FreeDisk returns the number of bytes that this process may still write to the folder's disk.
func FreeDisk(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert // their types differ between systems
}
