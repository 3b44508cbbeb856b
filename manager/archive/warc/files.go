package warc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// FS is where the archive's WARC files are; package warctest tells by tests what each method must do. Names are paths below a folder that is
// there. One goroutine writes a file; any number read it, through an Open of their own. Methods may be called by several goroutines.
type FS interface {
	// Open opens a file for reading and writing: fs.ErrNotExist where there is none. With create it makes an empty one: fs.ErrExist where
	// there is one.
	Open(name string, create bool) (File, error)
	// Remove removes a file: fs.ErrNotExist where there is none. The file may stay until it is closed everywhere.
	Remove(name string) error
	// List gives the names of the files in a folder, without its path, and their sizes.
	List(dir string) (map[string]int64, error)
	// Free is how many bytes may still be written in a folder.
	Free(dir string) (int64, error)
	// SyncDir makes creations and removals in a folder durable.
	SyncDir(dir string) error
}

// File is an open file.
type File interface {
	io.ReaderAt // whole, or an error: io.EOF at the end
	io.WriterAt // at the end or before it; what was written is read at once, through every Open
	Size() (int64, error)
	// Truncate cuts the file off.
	Truncate(size int64) error
	// Sync makes all that was written durable. After it failed, the disk may hold anything: the file is cut, and closed.
	Sync() error
	Close() error
}

// OS is the operating system's file system.
type OS struct{}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Open opens or creates a file.
func (OS) Open(name string, create bool) (File, error) {
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(name, flag, 0o640)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// List gives the names and sizes of the files in a folder.
func (OS) List(dir string) (map[string]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := make(map[string]int64, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			return nil, err
		case info.Mode().IsRegular():
			out[e.Name()] = info.Size()
		}
	}
	return out, nil
}

// Remove removes a file.
func (OS) Remove(name string) error { return os.Remove(name) }

// SyncDir makes what happened to the names of a folder durable, where the system can.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, fs.ErrPermission) {
		return err // Windows cannot sync a folder, and needs not
	}
	return nil
}

// Appender writes one file, in three steps: Append, Sync, Commit. Until Commit, Rollback takes back what was appended. It is owned by
// one goroutine.
type Appender struct {
	f         File
	fs        FS
	path      string
	committed int64
	end       int64
}

// ErrShort says that a file is shorter than what was committed to it: bytes that had been made durable are gone.
var ErrShort = errors.New("warc: file is shorter than what was committed to it")

// Create makes a new, empty file whose name is durable.
func Create(fsys FS, path string) (*Appender, error) {
	f, err := fsys.Open(path, true)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return nil, errors.Join(fmt.Errorf("create %s: %w", path, err), f.Close())
	}
	return &Appender{f: f, fs: fsys, path: path}, nil
}

// Resume opens a file to append at committed. What lies beyond was never acknowledged, and may be torn: it is cut off.
func Resume(fsys FS, path string, committed int64) (*Appender, error) {
	f, err := fsys.Open(path, false)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	size, err := f.Size()
	switch {
	case err != nil:
	case size < committed:
		err = fmt.Errorf("%w: %d bytes of %d", ErrShort, size, committed)
	case size > committed:
		if err = f.Truncate(committed); err == nil {
			err = f.Sync()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.Close())
	}
	return &Appender{f: f, fs: fsys, path: path, committed: committed, end: committed}, nil
}

// Append writes b at the end and tells where it begins.
func (a *Appender) Append(b []byte) (offset int64, err error) {
	if _, err := a.f.WriteAt(b, a.end); err != nil {
		return 0, fmt.Errorf("write %s: %w", a.path, err)
	}
	offset = a.end
	a.end += int64(len(b))
	return offset, nil
}

// Sync makes what was appended durable. After it failed, the disk may hold anything: roll back and use another file.
func (a *Appender) Sync() error {
	if err := a.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", a.path, err)
	}
	return nil
}

// Commit says that the length is recorded elsewhere.
func (a *Appender) Commit() { a.committed = a.end }

// Rollback cuts off what was appended since Commit. It may fail: Resume will do it then.
func (a *Appender) Rollback() error {
	a.end = a.committed
	if err := a.f.Truncate(a.committed); err != nil {
		return fmt.Errorf("roll back %s: %w", a.path, err)
	}
	return nil
}

// Len is the length with what is not committed.
func (a *Appender) Len() int64 { return a.end }

// Close closes the file.
func (a *Appender) Close() error { return a.f.Close() }
