package headroom

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Supported tells whether room can be kept here.
const Supported = true

func free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// reserve makes a file that takes size bytes of the disk.
func reserve(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
		os.Remove(path)
		return fmt.Errorf("set %d bytes aside in %s: %w", size, path, err)
	}
	return nil
}

// extend has the file system set aside so many bytes of a file behind what is written, if less than half of that is; before is how far it is set aside
// already. It returns how far it is now. The file's length and bytes stay.
func extend(path string, before, ahead int64) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	written, err := unix.Seek(int(f.Fd()), 0, unix.SEEK_HOLE)
	if err != nil {
		return 0, fmt.Errorf("look for the end of %s: %w", path, err)
	}
	to := min(written+ahead, info.Size())
	if before >= min(written+ahead/2, info.Size()) || to <= written {
		return before, nil
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, written, to-written); err != nil {
		return 0, fmt.Errorf("set %d bytes aside in %s: %w", to-written, path, err)
	}
	return to, nil
}
