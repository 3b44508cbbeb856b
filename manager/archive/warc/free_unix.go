//go:build linux || darwin

package warc

import "golang.org/x/sys/unix"

// Free is how many bytes may still be written where a folder is.
func (OS) Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
