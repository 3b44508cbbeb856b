package tables

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/dgraph-io/badger/v4"
)

// syncManifest is Badger's own variable, through which it syncs its manifest: after a compaction's tables were written and noted there, and
// before those that it read are removed. There is no other place at which that can be held up; see docs/decisions/0017. A test fails if
// Badger has it no more.
//
//go:linkname syncManifest github.com/dgraph-io/badger/v4.syncFunc
var syncManifest func(*os.File) error

// guards holds the Guarded of all open databases, by folder, because Badger's variable is global too.
var guards struct {
	once sync.Once
	mu   sync.Mutex
	by   map[string]*Guarded
}

// Guarded is a folder whose compactions are checked.
type Guarded struct {
	o        badger.Options
	found    func(error)
	release  func()
	released chan struct{}

	// owned by the holder of the manifest's lock
	tables map[uint64]badger.TableManifest // in use
	size   int64                           // of the manifest
}

// Guard checks every table that a compaction has read before Badger removes it. If the disk changed bytes there, the
// new tables lack them. Guard then calls found, restores the manifest, and makes the compaction fail, now and at each
// retry. Call Guard before the folder is opened.
func Guard(o badger.Options, found func(error)) *Guarded {
	g := &Guarded{o: o, found: found, released: make(chan struct{})}
	g.release = sync.OnceFunc(func() { close(g.released) })
	if f, err := os.Open(filepath.Join(o.Dir, badger.ManifestFilename)); err == nil {
		if m, end, err := badger.ReplayManifestFile(f, o.ExternalMagicVersion, o); err == nil {
			g.tables, g.size = m.Tables, end // Badger cuts what is behind it
		}
		_ = f.Close() // nothing was written
	}
	guards.once.Do(func() {
		guards.by = map[string]*Guarded{}
		sync := syncManifest
		syncManifest = func(f *os.File) error { return syncGuarded(f, sync) }
	})
	guards.mu.Lock()
	defer guards.mu.Unlock()
	guards.by[filepath.Clean(o.Dir)] = g
	return g
}

// Release lets failing compactions fail without waiting. Call it before the folder is closed.
func (g *Guarded) Release() { g.release() }

// End removes the guard. Call it after the folder was closed or could not be opened.
func (g *Guarded) End() {
	g.release()
	guards.mu.Lock()
	defer guards.mu.Unlock()
	if dir := filepath.Clean(g.o.Dir); guards.by[dir] == g {
		delete(guards.by, dir)
	}
}

func syncGuarded(f *os.File, sync func(*os.File) error) error {
	guards.mu.Lock()
	g := guards.by[filepath.Dir(f.Name())]
	guards.mu.Unlock()
	if g == nil {
		return sync(f)
	}
	err := g.look(f)
	if !errors.Is(err, ErrChanged) {
		return sync(f)
	}
	g.found(err)
	if back := g.takeBack(f, sync); back != nil {
		err = errors.Join(err, back)
	}
	t := time.NewTimer(again)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.released:
	}
	return err
}

// again is the pause before Badger may retry a compaction that will fail again. The retry holds the manifest's lock,
// so a commit in flight may wait as long for room.
const again = 10 * time.Second

// look reads the current manifest and checks the tables that it no longer names.
func (g *Guarded) look(f *os.File) error {
	r, err := os.Open(f.Name())
	if err != nil {
		return err
	}
	defer r.Close() // nothing was written
	m, end, err := badger.ReplayManifestFile(r, g.o.ExternalMagicVersion, g.o)
	if err != nil {
		return err
	}
	var names []string
	for id := range g.tables {
		if _, ok := m.Tables[id]; !ok {
			names = append(names, tableFile(g.o.Dir, id))
		}
	}
	if err := check(names); err != nil {
		return err
	}
	g.tables, g.size = m.Tables, end
	return nil
}

// takeBack restores the manifest to its state before the last change. Badger rewrites the manifest after thousands of
// changes; takeBack leaves a rewritten one. It then names tables that Badger will remove, so the next open fails
// instead of losing data silently.
func (g *Guarded) takeBack(f *os.File, sync func(*os.File) error) error {
	info, err := f.Stat()
	if err != nil || info.Size() <= g.size {
		return err
	}
	if err := f.Truncate(g.size); err != nil {
		return err
	}
	if _, err := f.Seek(g.size, 0); err != nil && !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return sync(f)
}
