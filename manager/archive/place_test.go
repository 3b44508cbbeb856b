package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb/tables"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/warctest"
)

// TestPlaces holds every place for WARC files to the contract, those of tests too.
func TestPlaces(t *testing.T) {
	t.Run("OS", func(t *testing.T) {
		warctest.Run(t, func(t *testing.T) warctest.Place { return warctest.Place{FS: warc.OS{}, Dir: t.TempDir()} })
	})
	t.Run("faults", func(t *testing.T) {
		warctest.Run(t, func(t *testing.T) warctest.Place {
			f := newFaultFS()
			return warctest.Place{FS: f, Dir: t.TempDir(), Crash: f.forget}
		})
	})
	t.Run("memory", func(t *testing.T) {
		warctest.Run(t, func(*testing.T) warctest.Place {
			m := &memoryPlace{files: map[string]*placeFile{}}
			return warctest.Place{FS: m, Dir: "/any", Crash: func(*testing.T) { m.crash() }}
		})
	})
}

// memoryPlace is a place that was written by the contract alone: nothing of it is in the operating system's files.
type memoryPlace struct {
	mu    sync.Mutex
	files map[string]*placeFile
}

type placeFile struct {
	m      *memoryPlace
	data   []byte
	synced int
}

func (m *memoryPlace) Open(name string, create bool) (warc.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.files[name]
	switch {
	case f == nil && !create:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case f != nil && create:
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	case f == nil:
		f = &placeFile{m: m}
		m.files[name] = f
	}
	return f, nil
}

func (m *memoryPlace) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(m.files, name)
	return nil
}

func (m *memoryPlace) List(dir string) (map[string]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if strings.HasSuffix(dir, "none") {
		return nil, fs.ErrNotExist
	}
	out := map[string]int64{}
	for name, f := range m.files {
		if filepath.Dir(name) == dir {
			out[filepath.Base(name)] = int64(len(f.data))
		}
	}
	return out, nil
}

func (m *memoryPlace) Free(string) (int64, error) { return 1 << 40, nil }
func (m *memoryPlace) SyncDir(string) error       { return nil }

func (m *memoryPlace) crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.files {
		f.data = f.data[:f.synced]
	}
}

func (f *placeFile) ReadAt(b []byte, at int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if at >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *placeFile) WriteAt(b []byte, at int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if at > int64(len(f.data)) {
		return 0, errors.New("memory: a hole")
	}
	f.data = append(f.data[:at], append(append([]byte(nil), b...), f.data[min(at+int64(len(b)), int64(len(f.data))):]...)...)
	return len(b), nil
}

func (f *placeFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.data)), nil
}

func (f *placeFile) Truncate(size int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.data, f.synced = f.data[:size], min(f.synced, int(size))
	return nil
}

func (f *placeFile) Sync() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.synced = len(f.data)
	return nil
}

func (f *placeFile) Close() error { return nil }

// TestElsewhere runs a whole archive with its pages in a place that is not the operating system's: all that it does goes through the contract.
func TestElsewhere(t *testing.T) {
	ctx := context.Background()
	m := &memoryPlace{files: map[string]*placeFile{}}
	cfg := testConfig(t.TempDir())
	cfg.FS, cfg.Roll = m, 4<<10
	a := open(t, cfg)
	r, _ := start(t, a, "p", 1, 1)
	fill := func(round int) {
		for n := range 5 {
			r.put(channel.ChunkBody{Pages: []channel.Page{r.page(fmt.Sprint("/", n), crashPage(1, uint64(round), n), channel.Changed)}})
		}
	}
	whole := func(a *Archive, round int) {
		t.Helper()
		for n := range 5 {
			if got, err := a.Get(ctx, r.url(fmt.Sprint("/", n)), time.Time{}); err != nil || string(got.Body) != crashPage(1, uint64(round), n) {
				t.Fatalf("page %d: %.40q, %v", n, got.Body, err)
			}
		}
		clean(t, a)
	}
	fill(1)
	fill(2)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	m.crash() // nothing that was acknowledged goes
	a = open(t, cfg)
	r.a = a
	whole(a, 2)
	if out, err := a.Tidy(ctx, Retention{Captures: 1}, 1); err != nil || out.Compacted.Files == 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	whole(a, 2)
	backup := filepath.Join(t.TempDir(), "backup")
	if err := a.Backup(ctx, backup); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	restored := testConfig(filepath.Join(t.TempDir(), "restored"))
	if err := Restore(ctx, backup, restored.Dir); err != nil {
		t.Fatal(err)
	}
	whole(open(t, restored), 2)

	// The database is lost; the pages are not.
	names, err := filepath.Glob(filepath.Join(cfg.Dir, "state", "*.sst"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	if err := os.Truncate(names[0], 100); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, cfg); !errors.Is(err, ErrState) || !errors.Is(err, tables.ErrChanged) {
		t.Fatal(err)
	}
	if out, err := Rebuild(ctx, cfg); err != nil || out.Pages != 5 {
		t.Fatalf("%+v, %v", out, err)
	}
	whole(open(t, cfg), 2)
	if left, err := os.ReadDir(filepath.Join(cfg.Dir, "warc")); err != nil || len(left) > 0 {
		t.Errorf("in the operating system's folder: %v, %v", left, err)
	}
}
