// Package folder keeps the segments of an archive as WARC files in a folder, which any program that knows the format can read. It is the
// segment store of the embedded archive; a Location counts bytes from the beginning of a file.
//
// It does not look into the records, and it does not know which of them are still needed.
//
// Invariants: a file's name is durable before a record in it is. Bytes that were not committed are cut off, at once or when the folder is opened
// again. A file whose sync failed is never appended to again, because the disk may hold anything of it.
package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
)

// DefaultRoll is the length at which a file is ended.
const DefaultRoll = 1 << 30

// Config of a folder.
type Config struct {
	FS    warc.FS          // nil: the operating system's
	Dir   string           // must be there. No default
	Roll  int64            // bytes after which a file is ended; 0: DefaultRoll
	Clock func() time.Time // names the files; nil: time.Now
	// First makes the first record of a file, its warcinfo. Nil: there is none.
	First func(name string, id uint32, at time.Time) ([]byte, error)
}

// Folder is an open folder. The Writer's methods are called by one goroutine at a time, all others by any.
type Folder struct {
	cfg Config

	mu    sync.Mutex
	names map[uint32]string // of the archive's files

	// Owned by the writer.
	out      *warc.Appender // nil: the next record begins a new file
	file     segment.Info   // which out writes, as it was last committed
	records  uint64         // appended since
	torn     bool           // a sync has failed
	last     uint32         // ID of the newest file that ever was
	finished []segment.Info // to be told with the next Sync
}

var _ segment.Store = (*Folder)(nil)

// Open opens a folder. Recover must be called before anything is written or read.
func Open(cfg Config) *Folder {
	if cfg.FS == nil {
		cfg.FS = warc.OS{}
	}
	if cfg.Roll <= 0 {
		cfg.Roll = DefaultRoll
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Folder{cfg: cfg, names: map[uint32]string{}}
}

func (f *Folder) path(name string) string { return filepath.Join(f.cfg.Dir, name) }

// Recover implements segment.Store.
func (f *Folder) Recover(committed []segment.Info, last uint32) (problems []segment.Problem, err error) {
	sizes, err := f.cfg.FS.List(f.cfg.Dir)
	if err != nil {
		return nil, err
	}
	f.last = last
	byName := map[string]segment.Info{}
	for _, s := range committed {
		byName[s.Name] = s
		f.last = max(f.last, s.ID)
		f.add(s.ID, s.Name)
		if _, there := sizes[s.Name]; !there {
			problems = append(problems, segment.Problem{Segment: s, Err: segment.ErrNone})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		s, known := byName[name]
		if !known {
			if err := f.cfg.FS.Remove(f.path(name)); err != nil {
				return nil, fmt.Errorf("remove a file that was never committed: %w", err)
			}
			continue
		}
		open := s.ID == last && !s.Sealed
		if sizes[name] == int64(s.Length) && !open {
			continue
		}
		out, err := warc.Resume(f.cfg.FS, f.path(name), int64(s.Length))
		if errors.Is(err, warc.ErrShort) { // what is left can still be read; nothing is appended to it
			problems = append(problems, segment.Problem{Segment: s, Err: fmt.Errorf("%w: %w", segment.ErrShort, err)})
			continue
		}
		if err != nil {
			return nil, err
		}
		if open {
			f.out, f.file = out, s
		} else if err := out.Close(); err != nil {
			return nil, err
		}
	}
	return problems, nil
}

// suffix ends the names of the archive's files. Others in the folder are left alone.
const suffix = ".warc.gz"

// List implements segment.Store.
func (f *Folder) List() (out []segment.Info, err error) {
	sizes, err := f.cfg.FS.List(f.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		id, created := parse(name)
		if id == 0 {
			return nil, fmt.Errorf("%s is not named as the archive's files are", name)
		}
		out = append(out, segment.Info{ID: id, Name: name, Length: uint64(sizes[name]), Sealed: true, Created: created})
		f.add(id, name)
	}
	return out, nil
}

const stamp = "20060102150405"

// nameOf names a file.
func nameOf(at time.Time, id uint32) string {
	return fmt.Sprintf("shoal-%s-%05d%s", at.Format(stamp), id, suffix)
}

// parse reads a file's name. The id is 0 if nameOf does not make such names.
func parse(name string) (id uint32, created time.Time) {
	parts := strings.Split(strings.TrimSuffix(name, suffix), "-")
	n, err := strconv.ParseUint(parts[len(parts)-1], 10, 32)
	if err != nil {
		return 0, time.Time{}
	}
	created, err = time.Parse(stamp, parts[max(len(parts)-2, 0)])
	if err != nil {
		created = time.Time{}
	}
	return uint32(n), created
}

func (f *Folder) add(id uint32, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names[id] = name
}

func (f *Folder) drop(id uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.names, id)
}

func (f *Folder) name(id uint32) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names[id]
}

// Has implements segment.Store.
func (f *Folder) Has(id uint32) bool { return f.name(id) != "" }

// Count implements segment.Store.
func (f *Folder) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.names)
}

// Place implements segment.Store.
func (f *Folder) Place(at segment.Location) segment.Place {
	return segment.Place{Name: f.name(at.Segment), Offset: int64(at.Offset), Length: int64(at.Length)}
}

// Free implements segment.Store.
func (f *Folder) Free() (int64, error) { return f.cfg.FS.Free(f.cfg.Dir) }

// open opens a file to be read.
func (f *Folder) open(name string) (warc.File, error) {
	if name == "" || name != filepath.Base(name) {
		return nil, fmt.Errorf("%w: %q", segment.ErrNone, name)
	}
	in, err := f.cfg.FS.Open(f.path(name), false)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("%w: %w", segment.ErrNone, err)
	}
	return in, err
}

// Read implements segment.Store.
func (f *Folder) Read(at segment.Location, most int64) (io.ReadCloser, error) {
	in, err := f.open(f.name(at.Segment))
	if err != nil {
		return nil, err
	}
	return section{io.NewSectionReader(in, int64(at.Offset), int64(at.Length)+most), in}, nil
}

type section struct {
	*io.SectionReader
	io.Closer
}

// Scan implements segment.Store.
func (f *Folder) Scan(ctx context.Context, s segment.Info, do func(segment.Found) error) error {
	in, err := f.open(s.Name)
	if errors.Is(err, segment.ErrNone) {
		return do(segment.Found{At: segment.Location{Segment: s.ID}, Bad: fmt.Errorf("cannot be opened: %w", err), End: true})
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	size, err := in.Size()
	if err != nil {
		return err
	}
	return segment.ScanBytes(ctx, in, size, s, do)
}

// copyStep is how much is copied before ctx is asked again.
const copyStep = 16 << 20

// Copy implements segment.Store.
func (f *Folder) Copy(ctx context.Context, s segment.Info, w io.Writer) error {
	in, err := f.open(s.Name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	r := io.NewSectionReader(in, 0, int64(s.Length))
	for left := int64(s.Length); left > 0; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n, err := io.CopyN(w, r, min(left, copyStep))
		if left -= n; err != nil {
			return fmt.Errorf("copy %s: %d bytes short: %w", s.Name, left, err)
		}
	}
	return nil
}

// Import copies a segment of another store into the folder, durably but for its name: SyncDir of the folder follows when all are there. Where
// both are folders of the operating system, a sealed file is linked if it can be.
func (f *Folder) Import(ctx context.Context, from segment.Store, s segment.Info) (err error) {
	if s.Name != filepath.Base(s.Name) {
		return fmt.Errorf("%w: %q", segment.ErrNone, s.Name)
	}
	if other, ok := from.(*Folder); ok && s.Sealed && f.system() && other.system() {
		st, err := os.Stat(other.path(s.Name))
		if err == nil && st.Size() == int64(s.Length) && os.Link(other.path(s.Name), f.path(s.Name)) == nil {
			return nil
		}
	}
	out, err := warc.Create(f.cfg.FS, f.path(s.Name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := from.Copy(ctx, s, appending{out}); err != nil {
		return err
	}
	return out.Sync()
}

// system tells whether the folder is the operating system's.
func (f *Folder) system() bool {
	_, ok := f.cfg.FS.(warc.OS)
	return ok
}

type appending struct{ *warc.Appender }

func (a appending) Write(b []byte) (int, error) {
	if _, err := a.Append(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Cut implements segment.Store. Recover cuts the file.
func (f *Folder) Cut(s segment.Info, at segment.Location) (segment.Info, bool) {
	s.Length, s.Sealed = at.Offset, true
	return s, at.Offset > 0
}

// Remove implements segment.Store.
func (f *Folder) Remove(s segment.Info) error {
	f.drop(s.ID)
	if err := f.cfg.FS.Remove(f.path(s.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
