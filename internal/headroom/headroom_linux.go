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

// extend has the file system set aside so many bytes of a file behind what is written, if less than half of that is. was is the mark of the last time; it returns the
// one of now. The file's length and bytes stay.
//
// It looks for the end of what is written from where that was, since the file system looks at each page on its way that the disk does not have yet. Logs are written
// from front to back; one that was cut, as when a database drops a torn end, is found out by a look from the front, one of wholeLook.
func extend(path string, was mark, ahead int64) (mark, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return was, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return was, err
	}
	if info.Size() == 0 {
		return mark{}, nil
	}
	from := was.written
	if was.looks%wholeLook == 0 || from >= info.Size() {
		from = 0
	}
	written, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	if err != nil {
		return was, fmt.Errorf("look for the end of %s: %w", path, err)
	}
	now := mark{written, was.aside, was.looks + 1}
	if written < was.written {
		was.aside, now.aside = written, written
	}
	to := min(written+ahead, info.Size())
	if was.aside >= min(written+ahead/2, info.Size()) || to <= written {
		return now, nil
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, written, to-written); err != nil {
		return was, fmt.Errorf("set %d bytes aside in %s: %w", to-written, path, err)
	}
	now.aside = to
	return now, nil
}
