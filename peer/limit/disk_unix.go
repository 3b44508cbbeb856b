//go:build unix

package limit

import "golang.org/x/sys/unix"

// FreeDisk is the room that is left for us on a folder's disk, in bytes.
func FreeDisk(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert // their types differ between systems
}
