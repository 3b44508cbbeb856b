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

// guards are those of all open databases, by folder. Badger's variable is one for all of them too.
var guards struct {
	once sync.Once
	mu   sync.Mutex
	by   map[string]*Guarded
}

// Guarded is a folder whose compactions are looked at.
type Guarded struct {
	o        badger.Options
	found    func(error)
	release  func()
	released chan struct{}

	// Owned by whoever holds the manifest's lock.
	tables map[uint64]badger.TableManifest // in use
	size   int64                           // of the manifest
}

// Guard looks again at every table that a compaction has read, before Badger removes it: what a disk has changed there is not in the tables
// that take its place. If there is such a thing, found is told, the manifest is what it was, and the compaction fails, then and whenever it is
// tried again. Guard is called before a folder is opened.
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

// Release is called before the folder is closed: no compaction that fails waits any more.
func (g *Guarded) Release() { g.release() }

// End is called after the folder was closed, or could not be opened.
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

// again is after how long Badger may try a compaction again that will fail again. Meanwhile it holds the manifest's lock: a commit that is under
// way may have to wait so long for room.
const again = 10 * time.Second

// look reads what the manifest says now, and looks at the tables that it names no more.
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

// takeBack makes the manifest what it was before the last change. One that was written anew, which Badger does after thousands of changes, is
// left: it names tables that Badger will remove, so that the folder is not opened again as if nothing were lost.
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
