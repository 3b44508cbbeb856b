package tables

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// A process that is killed may leave writes in the file system's cache that it has not synced. Where the disk refused a
// write, Linux keeps the page in its cache as if it had been written. The next process reads both, tells of them, and a
// power failure takes them away. So before a folder is opened, the files from which Badger learns what the last process
// wrote are written again, and synced.

// settle makes durable what is read when a folder is opened.
func settle(dir string) error {
	names, err := openLogs(dir)
	if err != nil {
		return err
	}
	for _, name := range append(names, filepath.Join(dir, badger.ManifestFilename)) {
		if err := rewrite(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close() // nothing was written
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, fs.ErrPermission) {
		return err // Windows cannot sync a folder, and needs not
	}
	return nil
}

// rewrite writes what a file holds once more, and syncs it. Holes stay.
func rewrite(name string) (err error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_ = f.Sync() // an error is of what the last process wrote
	buf := make([]byte, 1<<20)
	for at := int64(0); ; {
		n, err := io.ReadFull(f, buf)
		if part := bytes.TrimRight(buf[:n], "\x00"); len(part) > 0 {
			if _, err := f.WriteAt(part, at); err != nil {
				return err
			}
		}
		at += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return f.Sync()
		}
		if err != nil {
			return err
		}
	}
}
