package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/folder"
)

// Stores open what an archive stands on: its database, and the place of its pages. The one that is used by default is in a folder; package remote
// has the one on servers.
type Stores interface {
	// Open opens both. What fails leaves nothing open.
	Open(context.Context, Own) (ledger.Store, segment.Store, error)
	// Anew is Open with an empty database in place of one that cannot be opened, which is moved aside; old says where to.
	Anew(context.Context, Own) (l ledger.Store, s segment.Store, old string, err error)
}

// Own is what an archive tells its stores.
type Own struct {
	State    string                // folder of the database, or of this machine's copy of it
	Clock    func() time.Time      // names segments, and numbers the feed of a new archive
	Free     func() (int64, error) // room on the disk that the database may use; nil: it is not looked at
	Found    func(error)           // is told of damage
	Roll     int64                 // bytes after which a segment is ended; 0: as the store likes
	MemTable int64                 // bytes of one of the database's memory tables; 0: as the store likes
	// First makes the first record of a segment, its warcinfo. id is the archive's.
	First func(id [8]byte, name string, n uint32, at time.Time) ([]byte, error)
}

// Copy is the configuration of a database in the folder State.
func (o *Own) Copy() badgerledger.Config {
	return badgerledger.Config{Dir: o.State, MemTable: o.MemTable, Clock: o.Clock, Free: o.Free, Found: o.Found}
}

func (c *Config) own(pack *warc.Compressor, found func(error)) Own {
	about := c.about()
	return Own{
		State: filepath.Join(c.Dir, "state"), Clock: c.Clock, Free: c.free(), Found: found, Roll: c.Roll, MemTable: c.memTable,
		First: func(id [8]byte, name string, n uint32, at time.Time) ([]byte, error) {
			seed := [32]byte(append(id[:], make([]byte, 24)...))
			return pack.Append(nil, &warc.Record{Type: warc.Info, ID: warc.NewID(seed, int(n)), Date: at, Filename: name, Body: about})
		},
	}
}

// Embedded are the stores of an archive that lies in a folder.
func Embedded(dir string) Stores { return embedded{warc.OS{}, filepath.Join(dir, "warc")} }

// embedded are the stores in a folder: Badger, and WARC files.
type embedded struct {
	fs  warc.FS
	dir string // of the WARC files
}

func (e embedded) Open(_ context.Context, o Own) (ledger.Store, segment.Store, error) {
	for _, dir := range []string{e.dir, o.State} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, nil, err
		}
	}
	store, err := badgerledger.Open(o.Copy())
	if err != nil {
		return nil, nil, err
	}
	if _, follows, err := store.Position(); err != nil || follows {
		if err == nil {
			err = fmt.Errorf("%w: %s is the copy of a ledger on a server: name that with --db and --bucket", ErrState, o.State)
		}
		return nil, nil, errors.Join(err, store.Close())
	}
	id := store.Head().ID
	return store, folder.Open(folder.Config{
		FS: e.fs, Dir: e.dir, Roll: o.Roll, Clock: o.Clock,
		First: func(name string, n uint32, at time.Time) ([]byte, error) { return o.First(id, name, n, at) },
	}), nil
}

func (e embedded) Anew(ctx context.Context, o Own) (ledger.Store, segment.Store, string, error) {
	old, err := Aside(o.State, time.Now())
	if err != nil {
		return nil, nil, "", err
	}
	l, s, err := e.Open(ctx, o)
	return l, s, old, err
}

// Aside moves the folder of a damaged database out of the way.
func Aside(dir string, now time.Time) (old string, err error) {
	name := fmt.Sprintf("%s.broken-%s", dir, now.UTC().Format("20060102150405"))
	old = name
	for n := 2; ; n++ {
		if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
			return old, os.Rename(dir, old)
		} else if err != nil {
			return old, err
		}
		old = fmt.Sprint(name, "-", n) // it was tried before, in the same second
	}
}
