// Package remote opens an archive whose ledger is on a PostgreSQL server and whose pages are in an object store, and keeps in a data folder where
// they are. It is not for what is stored there (packages pgledger and objects).
package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shoal/channel/postgres"
	"shoal/manager/archive"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/pgledger"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/objects"
)

// Files below a data folder that say where its parts lie. Each holds a URL, which may contain a password.
const (
	DatabaseFile = "database" // the PostgreSQL server; missing: the channels lie in the folder
	BucketFile   = "bucket"   // the bucket; missing: the archive lies in the folder
)

// Linger is how long pages wait for others, to be written as one object.
const Linger = 250 * time.Millisecond

// Place is where an archive is.
type Place struct {
	DB      string   // URL of the server
	Bucket  string   // URL of the bucket
	Network [32]byte // root public key; zero: of any network
	Log     *slog.Logger
	// Writer is a random name of this start of the program, where several managers work on the archive. Empty: this one has it for itself.
	Writer string
}

// Noted reads a URL that a data folder remembers; empty: it does not.
func Noted(data, file string) (string, error) {
	at := filepath.Join(data, file)
	b, err := os.ReadFile(at)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	noted := strings.TrimSpace(string(b))
	if err == nil && noted == "" {
		err = fmt.Errorf("%s is empty, as after a power failure, and should hold the URL of a server: write it there again; remove the file only if the data lies in the folder", at)
	}
	return noted, err
}

// Note makes a data folder remember a URL, also if the power fails.
func Note(data, file, url string) error {
	at := filepath.Join(data, file)
	if err := writeSynced(at+".part", url+"\n"); err != nil {
		return err
	}
	return Rename(at+".part", at)
}

// Forget makes a data folder remember a URL no more.
func Forget(data, file string) error {
	if err := os.Remove(filepath.Join(data, file)); err != nil {
		return err
	}
	return warc.OS{}.SyncDir(data)
}

func writeSynced(name, text string) (err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Sync()
}

// Rename gives a file or folder another name, durably: what follows may rest on it.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return warc.OS{}.SyncDir(filepath.Dir(to))
}

// Of says where the archive of a data folder is; nil: in the folder.
func Of(data string) (*Place, error) {
	in, err := Noted(data, BucketFile)
	if err != nil || in == "" {
		return nil, err
	}
	db, err := Noted(data, DatabaseFile)
	if err == nil && db == "" {
		err = fmt.Errorf("%s names a bucket, and no %s names the server that belongs to it: give both, with --db and --bucket", filepath.Join(data, BucketFile), DatabaseFile)
	}
	return &Place{DB: db, Bucket: in}, err
}

// Config completes the configuration of the archive of a data folder: it is opened where the folder says.
func Config(data string, cfg archive.Config) (archive.Config, error) {
	p, err := Of(data)
	if err != nil || p == nil {
		return cfg, err
	}
	p.Log = cfg.Log
	return p.Config(cfg), nil
}

// Config completes the configuration of an archive that is in this place.
func (p *Place) Config(cfg archive.Config) archive.Config {
	cfg.Stores, cfg.Linger = p, Linger
	return cfg
}

var _ archive.Stores = (*Place)(nil)

// Open implements archive.Stores.
func (p *Place) Open(ctx context.Context, o archive.Own) (ledger.Store, segment.Store, error) {
	b, l, err := p.openKnown(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	return l, p.segments(b, l, o), nil
}

// Anew implements archive.Stores.
func (p *Place) Anew(ctx context.Context, o archive.Own) (ledger.Store, segment.Store, string, error) {
	old, err := archive.Aside(o.State, time.Now())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, "", err
	}
	b, l, err := p.open(ctx, o, pgledger.Anew, nil)
	if err != nil {
		return nil, nil, old, err
	}
	return l, p.segments(b, l, o), old + " and in tables of the server whose names contain broken", nil
}

type opener func(context.Context, pgledger.Config) (*pgledger.Store, error)

// openKnown opens ledger and bucket, unless that holds an archive of which the ledger knows nothing.
func (p *Place) openKnown(ctx context.Context, o archive.Own) (*bucket.Bucket, *pgledger.Store, error) {
	return p.open(ctx, o, pgledger.Open, p.known)
}

// open opens ledger and bucket. The ledger comes first: its lock tells whether a manager runs here. unwritten is asked whether a ledger may be begun; nil: it may.
func (p *Place) open(ctx context.Context, o archive.Own, open opener, unwritten func(context.Context) error) (*bucket.Bucket, *pgledger.Store, error) {
	late := &lateBucket{}
	l, err := open(ctx, pgledger.Config{Server: p.server(), Copy: o.Copy(), Objects: late, Clock: o.Clock, Log: p.Log, Writer: p.Writer, Unwritten: unwritten, Before: func(ctx context.Context) (err error) {
		late.Bucket, err = p.bucket(ctx)
		return err
	}})
	if err != nil {
		return nil, nil, err
	}
	return late.Bucket, l, nil
}

// lateBucket is a bucket that is opened when the ledger's copy is locked.
type lateBucket struct{ *bucket.Bucket }

func (p *Place) server() postgres.Config {
	cfg := postgres.Default(p.DB)
	cfg.Schema, cfg.Network, cfg.Log = pgledger.Schema, p.Network, p.Log
	return cfg
}

func (p *Place) bucket(ctx context.Context) (*bucket.Bucket, error) {
	return bucket.Open(ctx, bucket.Config{URL: p.Bucket, Network: p.Network})
}

func (p *Place) segments(b *bucket.Bucket, l *pgledger.Store, o archive.Own) *objects.Store {
	id := l.Head().ID
	var next func() (uint32, error)
	if l.Several() {
		next = l.NextSegment
	}
	return objects.Open(objects.Config{
		Bucket: b, Next: next, Roll: o.Roll, Clock: o.Clock,
		First: func(name string, n uint32, at time.Time) ([]byte, error) { return o.First(id, name, n, at) },
		Free:  func() (int64, error) { return warc.OS{}.Free(filepath.Dir(o.State)) }, // of the ledger's copy
	})
}
